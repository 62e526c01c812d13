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
  answered_by text,
  answered_at timestamptz,
  constraint "an inquiry has a name" check (char_length(trim(name)) between 1 and 200),
  constraint "an inquiry's phone is short" check (char_length(phone) <= 40),
  constraint "an inquiry's subject is short" check (char_length(subject) <= 300),
  constraint "an inquiry has a message" check (char_length(trim(message)) between 1 and 10000)
);
comment on table public.inquiries is 'Messages from the contact form.';
comment on column public.inquiries.answered_by is 'Email address of the staff member who answered last. Null: not answered.';
comment on column public.inquiries.answered_at is 'When staff answered last (inquiry_answers). Null: not answered.';
alter table public.inquiries enable row level security;
grant insert (name, email, phone, subject, message) on public.inquiries to anon, authenticated;
grant select on public.inquiries to authenticated;
grant select (id) on public.inquiries to anon;
create policy "everyone sends inquiries" on public.inquiries for insert to anon, authenticated with check (not is_read);
create policy "staff read every inquiry" on public.inquiries for select to authenticated using ((select public.may('inquiries')));
create index inquiries_newest_first on public.inquiries (created_at desc, id desc);
create index inquiries_unread on public.inquiries (created_at desc) where not is_read;
create index inquiries_by_part_of_their_text on public.inquiries
  using gin (lower(name || E'\n' || email || E'\n' || coalesce(subject, '')) extensions.gin_trgm_ops) with (fastupdate = off);

create function private.before_inquiry_insert() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if cardinality(private.caller_networks()) > 0 then
    -- One inquiry per request bounds the checks of an insert.
    if private.is_stated('has_inquiry') then
      perform private.refuse(400, 'too_many_rows', 'Please send one message at a time');
    end if;
    perform private.state('has_inquiry');
    if not private.count_call('inquiries') then
      perform private.refuse(429, 'too_many_inquiries', format(
        'Too many messages from your network. Please try again in %s, or call or WhatsApp us on %s', private.time_left('inquiries'), private.contact_numbers()
      ));
    elsif not private.count_call('inquiries_of_day') then
      perform private.refuse(429, 'too_many_inquiries', format(
        'Too many messages from your network today. Please try again in %s, or call or WhatsApp us on %s', private.time_left('inquiries_of_day'), private.contact_numbers()
      ));
    end if;
  end if;
  if not private.is_email(new.email) then
    perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
  elsif private.visible_length(left(new.name, 300)) = 0 then
    perform private.refuse(400, 'name_invalid', 'Please enter your name');
  elsif private.visible_length(left(new.message, 10000)) = 0 then
    perform private.refuse(400, 'message_invalid', 'Please write a message');
  end if;
  -- Subject and phone; long texts are refused by the constraints.
  return private.without_invisible_texts(new);
end
$$;

create function public.mark_inquiry_read(inquiry_id uuid) returns text
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform private.expect_staff('inquiries');
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
  perform private.expect_staff('inquiries');
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
  page_size integer default 50, unread boolean default false, sort text default null
) returns setof public.inquiries
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff('inquiries');
  found_ids := private.find_by_text(
    'inquiries', $sql$lower(t.name || E'\n' || t.email || E'\n' || coalesce(t.subject, ''))$sql$,
    case when unread then 'not t.is_read' else 'true' end, search,
    coalesce(sort, case when unread then 'date' end), before_created_at, before_id, page_size
  );
  return query
    select i.* from unnest(found_ids) with ordinality as f (id, place) join public.inquiries as i on i.id = f.id order by f.place;
end
$$;
comment on function public.search_inquiries is
  'For staff: a page of inquiries whose name, email or subject contains a text, ignoring case; after the one named by before_created_at and before_id. unread: only those. sort: date (oldest first, default of unread), -date (default), name, email, subject or status (unread first), with - before it for the opposite; by another column than the date only the newest 5,000, or 500 of a search.';

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
  'When the last confirmation mail was queued: at most one in 30 days. An unconfirmed address is deleted seven days later.';
alter table public.newsletter_subscriptions enable row level security;
grant select on public.newsletter_subscriptions to authenticated;
create policy "staff read every subscription" on public.newsletter_subscriptions
  for select to authenticated using ((select public.may('personal_data')));
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

create table private.newsletter_mailed (
  mailbox_hash bytea primary key,
  mailed_at timestamptz not null default now()
);
comment on table private.newsletter_mailed is
  'SHA-256 hashes of the mailboxes to which a confirmation was mailed within the last 30 days, so that a stranger''s gets no second one, even after unsubscribing.';
alter table private.newsletter_mailed enable row level security;
create index newsletter_mailed_by_time on private.newsletter_mailed (mailed_at);

create function private.mailbox_hash(email text) returns bytea
language plpgsql immutable set search_path = '' as $$
declare
  domain text := replace(lower(split_part(email, '@', 2)), 'googlemail.com', 'gmail.com');
  mailbox text := split_part(lower(split_part(email, '@', 1)), '+', 1);
begin
  if domain = 'gmail.com' then
    mailbox := replace(mailbox, '.', '');
  end if;
  return sha256(convert_to(mailbox || '@' || domain, 'UTF8'));
end
$$;
comment on function private.mailbox_hash is
  'SHA-256 of the mailbox of an email address: without a tag (name+tag@), and without the dots that Gmail ignores.';

create function public.subscribe_to_newsletter(email text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  address text;
  subscription_id uuid;
begin
  -- Checked for every address, so that a refusal does not reveal which addresses need a mail.
  if not private.count_call('newsletter') then
    perform private.refuse(429, 'too_many_subscriptions', format(
      'Too many subscriptions from your network. Please try again in %s', private.time_left('newsletter')
    ));
  elsif not private.is_within_limit('newsletter_mails') then
    perform private.refuse(429, 'too_many_subscriptions', format(
      'Too many subscriptions from your network today. Please try again in %s', private.time_left('newsletter_mails')
    ));
  -- A budget of its own, for all networks together, so that mails of orders never lack what strangers spend here.
  elsif private.hits_so_far('newsletter_mails_of_all', 'all', interval '1 day') >= ceil(private.daily_budget('mail') / 20.0) then
    perform private.refuse(429, 'too_many_subscriptions', format(
      'Too many subscriptions today. Please try again in %s', private.time_left('newsletter_mails')
    ));
  elsif char_length(subscribe_to_newsletter.email) <= 300 then
    address := trim(subscribe_to_newsletter.email);
  end if;
  if not private.is_email(address) then
    return private.refusal_answer('PT400', 'Please enter a valid email address', 'email_invalid', '');
  end if;
  -- The same result for every address, so that it does not reveal who is subscribed.
  if exists (select from public.newsletter_subscriptions as n where lower(n.email) = lower(address) and n.confirmed_at is not null) then
    return null;
  end if;
  insert into private.newsletter_mailed as known (mailbox_hash) values (private.mailbox_hash(address))
  on conflict (mailbox_hash) do update set mailed_at = now() where known.mailed_at < now() - interval '30 days';
  if not found then
    return null;
  end if;
  insert into public.newsletter_subscriptions (email) values (address) on conflict do nothing;
  update public.newsletter_subscriptions as n set confirmation_queued_at = now()
  where lower(n.email) = lower(address)
  returning n.id into subscription_id;
  perform private.count_call('newsletter_mails');
  perform private.count_hit('newsletter_mails_of_all', 'all', interval '1 day');
  perform private.queue_newsletter_confirmation(subscription_id);
  return null;
end
$$;
comment on function public.subscribe_to_newsletter is
  'Mails a confirmation link to the address, at most once in 30 days. All together cause at most a twentieth of the day''s mails. Returns null for every address, so that the result does not reveal who is subscribed.';

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
