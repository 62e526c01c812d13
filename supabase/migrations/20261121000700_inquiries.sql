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
  constraint "an inquiry has an e-mail address" check (email ~ '^[^\s@]+@[^\s@]+$' and char_length(email) <= 254),
  constraint "an inquiry's phone is short" check (char_length(phone) <= 40),
  constraint "an inquiry's subject is short" check (char_length(subject) <= 300),
  constraint "an inquiry has a message" check (char_length(trim(message)) between 1 and 10000)
);
comment on table public.inquiries is 'Messages of visitors to the seller.';
alter table public.inquiries enable row level security;
create index inquiries_newest_first on public.inquiries (created_at desc);

create policy "everyone sends inquiries" on public.inquiries for insert to anon, authenticated with check (not is_read);
create policy "staff read every inquiry" on public.inquiries
  for select to authenticated using ((select public.is_admin()));
grant insert (name, email, phone, subject, message) on public.inquiries to anon, authenticated;
grant select on public.inquiries to authenticated;

create function private.limit_inquiries() returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  caller text := private.caller_address();
begin
  if caller is not null and private.count_hit('inquiries', caller, interval '10 minutes') > 30 then
    perform private.refuse(429, 'too_many_inquiries', 'Too many messages from your network. Please try again in a few minutes');
  end if;
  return new;
end
$$;
create trigger inquiries_are_limited before insert on public.inquiries
  for each row execute function private.limit_inquiries();
