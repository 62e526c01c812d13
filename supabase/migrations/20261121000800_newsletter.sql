-- Newsletter: addresses of people who want to hear from the seller.

create table public.newsletter_subscriptions (
  id uuid primary key default gen_random_uuid(),
  email text not null,
  created_at timestamptz not null default now(),
  constraint "a subscription has an e-mail address" check (email ~ '^[^\s@]+@[^\s@]+\.[^\s@]+$' and char_length(email) <= 254)
);
comment on table public.newsletter_subscriptions is 'Who asked for the newsletter. Nobody but staff learns who is on it.';
alter table public.newsletter_subscriptions enable row level security;
create unique index newsletter_addresses_are_unique on public.newsletter_subscriptions (lower(email));
create index newsletter_subscriptions_newest_first on public.newsletter_subscriptions (created_at desc);

create policy "staff read every subscription" on public.newsletter_subscriptions
  for select to authenticated using ((select public.is_admin()));
grant select on public.newsletter_subscriptions to authenticated;

create function public.subscribe_to_newsletter(email text) returns void
language plpgsql volatile security definer
set search_path = ''
as $$
declare
  address text := trim(subscribe_to_newsletter.email);
  caller text := private.caller_address();
begin
  if address is null or address !~ '^[^\s@]+@[^\s@]+\.[^\s@]+$' or char_length(address) > 254 then
    perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
  end if;
  if caller is not null and private.count_hit('newsletter', caller, interval '10 minutes') > 30 then
    perform private.refuse(429, 'too_many_subscriptions', 'Too many subscriptions from your network. Please try again in a few minutes');
  end if;
  -- A known address is answered like a new one: the answer must not tell who is on the list.
  insert into public.newsletter_subscriptions (email) values (address) on conflict do nothing;
end
$$;
comment on function public.subscribe_to_newsletter(text) is
  'Puts an address on the newsletter''s list, once. Always the same answer, whether it was there before or not.';
grant execute on function public.subscribe_to_newsletter(text) to anon, authenticated, service_role;
