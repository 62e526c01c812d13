-- Newsletter: an address is on the list once its owner confirmed it by a link, and leaves the list by a link in every mail.

alter table public.newsletter_subscriptions
  add column confirmed_at timestamptz,
  add column confirmation_queued_at timestamptz;
comment on table public.newsletter_subscriptions is
  'Subscriptions to the newsletter. Only confirmed ones (confirmed_at) may be written to. Only staff read them.';
comment on column public.newsletter_subscriptions.confirmed_at is
  'When the owner of the address confirmed it; null before. Set to created_at for addresses from before confirmation existed.';
comment on column public.newsletter_subscriptions.confirmation_queued_at is
  'When the last confirmation mail was queued: one a day at most, and the address is deleted seven days after the last one.';
update public.newsletter_subscriptions set confirmed_at = created_at where confirmed_at is null;

create table private.newsletter_tokens (
  token_hash bytea primary key,
  subscription_id uuid not null references public.newsletter_subscriptions (id) on delete cascade,
  purpose text not null,
  created_at timestamptz not null default now(),
  constraint "a token confirms or unsubscribes" check (purpose in ('confirm', 'unsubscribe'))
);
comment on table private.newsletter_tokens is
  'SHA-256 hashes of the tokens in newsletter links. The tokens themselves are only in the mails.';
alter table private.newsletter_tokens enable row level security;
create index newsletter_tokens_by_subscription on private.newsletter_tokens (subscription_id);

-- Confirmation mails use the outbox of messages to customers; they belong to no order. -----------------------------

alter table public.outbox_messages alter column order_id drop not null;
comment on column public.outbox_messages.order_id is
  'The order, or null for a newsletter mail. The messages of an order are deleted with it.';
comment on column public.outbox_messages.occasion is
  'Tells messages of one kind and order apart: empty, or the id of the refund by which a payment was sent back. For newsletter mails, the id of the subscription.';

alter table public.message_templates
  drop constraint "a template is of a kind that is known",
  add constraint "a template is of a kind that is known" check (kind in (
    'order_received', 'order_paid', 'order_payment_held', 'order_on_its_way', 'order_delivered', 'order_refunded',
    'newsletter_confirmation'
  ));
alter table public.outbox_messages
  drop constraint "a kind of message is known",
  add constraint "a kind of message is known" check (kind in (
    'order_received', 'order_paid', 'order_payment_held', 'order_on_its_way', 'order_delivered', 'order_refunded',
    'newsletter_confirmation'
  )),
  add constraint "a message is about an order or the newsletter"
    check ((order_id is null) = (kind = 'newsletter_confirmation'));

create or replace function private.check_message_template() returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  written text := coalesce(new.subject, '') || E'\n' || new.body;
  is_newsletter boolean := new.kind = 'newsletter_confirmation';
  placeholders text[] := array['shop', 'shop_phone', 'shop_email'] || case
    when is_newsletter then array['confirm_link', 'unsubscribe_link']
    else array[
      'name', 'order', 'tracking', 'items', 'delivery_fee', 'total', 'paid', 'receipt', 'refunded', 'refund_receipt',
      'link', 'receipt_link'
    ]
  end;
  unknown text;
  missing text;
begin
  if trim(new.body) = '' or (new.channel = 'mail' and trim(new.subject) = '') then
    perform private.refuse(400, 'template_empty', 'A message needs words');
  end if;
  if char_length(new.body) > 5000 or (new.channel = 'text' and char_length(new.body) > 480) or char_length(new.subject) > 150 then
    perform private.refuse(400, 'template_too_long', 'This message is too long');
  end if;
  if new.subject ~ '[\n\r]' then
    perform private.refuse(400, 'subject_has_lines', 'A subject is one line');
  end if;
  select named.word[1] into unknown
  from regexp_matches(written, '\{([^{}]*)\}', 'g') as named (word)
  where named.word[1] <> all (placeholders)
  limit 1;
  if found then
    perform private.refuse(400, 'placeholder_unknown', format('There is no placeholder {%s}', unknown));
  end if;
  if is_newsletter then
    select wanted.word into missing
    from unnest(array['confirm_link', 'unsubscribe_link']) as wanted (word)
    where position('{' || wanted.word || '}' in new.body) = 0
    limit 1;
    if found then
      perform private.refuse(400, 'placeholder_missing', format('This message needs {%s}', missing));
    end if;
  end if;
  -- What is left once everything that is whole is taken away.
  if regexp_replace(regexp_replace(written, '\{[a-z_]+\}', '', 'g'), '\[[^][]*\]', '', 'g') ~ '[][{}]' then
    perform private.refuse(400, 'brackets_unbalanced', 'A bracket is not closed, or stands within another');
  end if;
  return new;
end
$$;

insert into public.message_templates (kind, channel, subject, body, default_subject, default_body)
select 'newsletter_confirmation', 'mail', words.subject, words.body, words.subject, words.body
from (values (
  'Please confirm: news from {shop}',
  E'Habari,\n\nyou asked for news from {shop}: a short note when a new flavor leaves the press.\n\nPlease confirm your address here:\n{confirm_link}\n\nIf it was not you, do nothing. Without your confirmation we send no news and forget your address after 7 days. To remove it now:\n{unsubscribe_link}\n\n{shop}\n{shop_phone}\n{shop_email}'
)) as words (subject, body);

create or replace function private.message_facts(order_id uuid, kind text, occasion text) returns jsonb
language plpgsql stable
set search_path = ''
as $$
declare
  shop jsonb := (
    select jsonb_build_object('name', s.store_name, 'phone', s.support_phone, 'email', s.support_email)
    from public.store_settings as s
  );
begin
  if message_facts.kind = 'newsletter_confirmation' then
    return jsonb_build_object('shop', shop, 'subscription_id', message_facts.occasion);
  end if;
  return (select jsonb_build_object(
    'shop', shop,
    'order_number', o.order_number,
    'tracking_number', o.tracking_number,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = o.id limit 1),
    'customer_name', o.customer_name,
    'delivery_fee', o.delivery_fee,
    'total_amount', o.total_amount,
    'items', coalesce((
      select jsonb_agg(
        jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
        order by i.created_at, i.id
      )
      from public.order_items as i where i.order_id = o.id
    ), '[]'::jsonb),
    'payment', (
      select jsonb_build_object(
        'amount', p.amount, 'receipt', p.receipt, 'paid_at', p.completed_at,
        -- Known once money can be sent back.
        'refund_receipt', to_jsonb(p) ->> 'refund_receipt'
      )
      from public.payments as p
      where p.order_id = o.id and p.status = 'completed'
        and case
          when message_facts.occasion = '' then not p.needs_refund
          -- A payment that was entered twice becomes one; its refund stays.
          else exists (select from public.refunds as r where r.id::text = message_facts.occasion and r.payment_id = p.id)
        end
      order by p.completed_at desc
      limit 1
    )
  )
  from public.orders as o
  where o.id = message_facts.order_id);
end
$$;
comment on function private.message_facts(uuid, text, text) is
  'Values of the placeholders of a message. Of an order: payment is the one that paid it, or the one whose refund the occasion names. Of a newsletter mail: the shop and the subscription.';

-- A subscription that ends takes its mails along: they hold the address.
create function private.forget_newsletter_mails() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  delete from public.outbox_messages as m
  where m.order_id is null and m.kind = 'newsletter_confirmation' and m.occasion = old.id::text;
  return null;
end
$$;
create trigger newsletter_subscriptions_take_their_mails_along after delete on public.newsletter_subscriptions
  for each row execute function private.forget_newsletter_mails();

-- Subscribing, confirming, unsubscribing ---------------------------------------------------------------------------

insert into private.limits (name, allowed, within) values
  ('newsletter', 30, interval '10 minutes'),
  ('newsletter_mails', 20, interval '1 day');

drop function public.subscribe_to_newsletter(text);
create function public.subscribe_to_newsletter(email text) returns jsonb
language plpgsql volatile security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  address text;
  subscription_id uuid;
begin
  -- The limit of mails is read for every address: a refusal must not show which addresses need a mail.
  if not (private.count_call('newsletter') and private.is_within_limit('newsletter_mails')) then
    perform private.refuse(429, 'too_many_subscriptions', 'Too many subscriptions from your network. Please try again in a few minutes');
  end if;
  if char_length(subscribe_to_newsletter.email) <= 300 then
    address := trim(subscribe_to_newsletter.email);
  end if;
  if not private.is_email(address) then
    return private.refusal_answer('PT400', 'Please enter a valid email address', 'email_invalid', '');
  end if;
  insert into public.newsletter_subscriptions (email) values (address) on conflict do nothing;
  -- A stranger who enters an address again and again causes one mail a day.
  update public.newsletter_subscriptions as n
  set confirmation_queued_at = now()
  where lower(n.email) = lower(address) and n.confirmed_at is null
    and (n.confirmation_queued_at is null or n.confirmation_queued_at < now() - interval '1 day')
  returning n.id into subscription_id;
  if found then
    perform private.count_call('newsletter_mails');
    perform private.queue_newsletter_confirmation(subscription_id);
  end if;
  -- The same answer for every address: it must not show who is on the list.
  return null;
end
$$;
comment on function public.subscribe_to_newsletter(text) is
  'Mails the address a link that puts it on the newsletter''s list, at most once a day. Always the same answer, null, whether the address is known or not.';
grant execute on function public.subscribe_to_newsletter(text) to anon, authenticated, service_role;

create function private.queue_newsletter_confirmation(subscription_id uuid) returns void
language sql
set search_path = ''
as $$
  with queued as (
    insert into public.outbox_messages (
      order_id, kind, occasion, channel, recipient, order_number, tracking_number, customer_name
    )
    select null, template.kind, n.id::text, template.channel, n.email, '', '', ''
    from public.newsletter_subscriptions as n
    join public.message_templates as template on template.kind = 'newsletter_confirmation' and template.is_on
    where n.id = queue_newsletter_confirmation.subscription_id
    returning id, channel
  )
  insert into private.outbox_queue (message_id, channel, due_at) select queued.id, queued.channel, now() from queued;
$$;

create function public.issue_newsletter_tokens(subscription_id uuid) returns jsonb
language plpgsql volatile security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  confirm text := replace(gen_random_uuid()::text, '-', '');
  unsubscribe text := replace(gen_random_uuid()::text, '-', '');
begin
  perform from public.newsletter_subscriptions as n where n.id = issue_newsletter_tokens.subscription_id for key share;
  if not found then
    return null;
  end if;
  insert into private.newsletter_tokens (token_hash, subscription_id, purpose)
  values
    (sha256(convert_to(confirm, 'UTF8')), issue_newsletter_tokens.subscription_id, 'confirm'),
    (sha256(convert_to(unsubscribe, 'UTF8')), issue_newsletter_tokens.subscription_id, 'unsubscribe');
  return jsonb_build_object('confirm', confirm, 'unsubscribe', unsubscribe);
end
$$;
comment on function public.issue_newsletter_tokens(uuid) is
  'New tokens for the links of one newsletter mail; only their hashes are stored. Null when the subscription has ended.';
grant execute on function public.issue_newsletter_tokens(uuid) to service_role;

create function public.confirm_newsletter(token text) returns boolean
language plpgsql volatile security definer
set search_path = ''
as $$
#variable_conflict use_column
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
comment on function public.confirm_newsletter(text) is
  'Puts the address to which this token was mailed on the list. False when the token was used, has expired or never existed.';

create function public.unsubscribe_from_newsletter(token text) returns boolean
language plpgsql volatile security definer
set search_path = ''
as $$
#variable_conflict use_column
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
comment on function public.unsubscribe_from_newsletter(text) is
  'Deletes the address to which this token was mailed, with everything stored for it. False when the token is not, or no longer, known.';
grant execute on function public.confirm_newsletter(text), public.unsubscribe_from_newsletter(text)
  to anon, authenticated, service_role;
