-- What the messages say: texts that staff may change, with placeholders for what differs from order to order.

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
  constraint "a template is of a kind that is known" check (kind in (
    'order_received', 'order_paid', 'order_payment_held', 'order_on_its_way', 'order_delivered', 'order_refunded'
  )),
  constraint "a template is of a mail or a text" check (channel in ('mail', 'text')),
  constraint "mails have a subject, texts have none" check ((subject is not null) = (channel = 'mail'))
);
comment on table public.message_templates is
  'The words of each kind of message. {name} stands for what differs; a part in [ ] is left out where one of its placeholders is empty.';
comment on column public.message_templates.is_on is 'Whether messages of this kind are sent this way at all.';
comment on column public.message_templates.updated_at is
  'Moves with every edit. Who saves one names the one they saw, and changes nothing if it has moved.';
alter table public.message_templates enable row level security;

create policy "staff read the templates" on public.message_templates
  for select to authenticated using ((select public.is_admin()));
create policy "staff edit the templates" on public.message_templates
  for update to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));
grant select, update (subject, body, is_on, updated_at) on public.message_templates to authenticated;
-- As of the other tables that staff screens follow: the live service tells visitors nothing of them.
grant select (id) on public.message_templates to anon;

create function private.check_message_template() returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  written text := coalesce(new.subject, '') || E'\n' || new.body;
  unknown text;
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
  where named.word[1] not in (
    'shop', 'shop_phone', 'shop_email', 'name', 'order', 'tracking', 'items', 'delivery_fee', 'total',
    'paid', 'receipt', 'refunded', 'refund_receipt', 'link', 'receipt_link'
  )
  limit 1;
  if found then
    perform private.refuse(400, 'placeholder_unknown', format('There is no placeholder {%s}', unknown));
  end if;
  -- What is left once everything that is whole is taken away.
  if regexp_replace(regexp_replace(written, '\{[a-z_]+\}', '', 'g'), '\[[^][]*\]', '', 'g') ~ '[][{}]' then
    perform private.refuse(400, 'brackets_unbalanced', 'A bracket is not closed, or stands within another');
  end if;
  return new;
end
$$;
create trigger message_templates_are_checked before insert or update on public.message_templates
  for each row execute function private.check_message_template();
create trigger message_templates_date_their_edit before update on public.message_templates
  for each row execute function private.date_settings_edit();

insert into public.message_templates (kind, channel, subject, body, default_subject, default_body)
select kind, channel, subject, body, subject, body
from (values
  ('order_received', 'text', null,
    '{shop}: we have your order {order}, {total}. Pay or follow it: {link}'),
  ('order_paid', 'text', null,
    '{shop}: {paid} received for {order}[, M-PESA {receipt}]. Asante! Follow it: {link}'),
  ('order_payment_held', 'text', null,
    '{shop}: {paid} received[, M-PESA {receipt}], but {order} needs a check. We will call you. {link}'),
  ('order_on_its_way', 'text', null,
    '{shop}: your order {order} is on its way. Follow it: {link}'),
  ('order_delivered', 'text', null,
    '{shop}: your order {order} was delivered. Asante! Your receipt: {receipt_link}'),
  ('order_refunded', 'text', null,
    '{shop}: {refunded} for {order} was sent back to the phone that paid[, M-PESA {refund_receipt}]. {link}'),
  ('order_received', 'mail', 'We have your order {order}',
    E'Habari {name},\n\nthank you for your order at {shop}.\n\n{items}\nDelivery: {delivery_fee}\nTotal: {total}\n\nPay or follow your order here:\n{link}\n\nYour tracking number is {tracking}.\n\n{shop}\n{shop_phone}\n{shop_email}'),
  ('order_paid', 'mail', 'We received your payment for {order}',
    E'Habari {name},\n\nwe received {paid} for your order {order}. Asante![ The M-PESA receipt is {receipt}.]\n\n{items}\nDelivery: {delivery_fee}\nTotal: {total}\n\nFollow your order here:\n{link}\n\nYour receipt, to keep or to print:\n{receipt_link}\n\n{shop}\n{shop_phone}\n{shop_email}'),
  ('order_payment_held', 'mail', 'Your payment for {order} reached us, and we will call you',
    E'Habari {name},\n\nwe received {paid} for your order {order}.[ The M-PESA receipt is {receipt}.]\n\nIt came too late for the drinks we kept for you, or in another amount than the total of {total}. Nothing is lost: our team will call you to sort it out.\n\nYour order:\n{link}\n\n{shop}\n{shop_phone}\n{shop_email}'),
  ('order_on_its_way', 'mail', 'Your order {order} is on its way',
    E'Habari {name},\n\nyour order {order} has left our fridge and is on its way to you.\n\nFollow it here:\n{link}\n\n{shop}\n{shop_phone}\n{shop_email}'),
  ('order_delivered', 'mail', 'Your order {order} was delivered',
    E'Habari {name},\n\nyour order {order} was delivered. Asante, and enjoy it cold!\n\nYour receipt, to keep or to print:\n{receipt_link}\n\nIf something is not right, call us at {shop_phone}.\n\n{shop}\n{shop_phone}\n{shop_email}'),
  ('order_refunded', 'mail', 'Your money for {order} was sent back',
    E'Habari {name},\n\nwe sent {refunded} for your order {order} back to the phone that paid.[ The M-PESA receipt of it is {refund_receipt}.]\n\nYour order:\n{link}\n\nIf it has not reached you within a day, call us at {shop_phone}.\n\n{shop}\n{shop_phone}\n{shop_email}')
) as worded (kind, channel, subject, body);

do $$
begin
  if exists (select from pg_publication where pubname = 'supabase_realtime')
    and not exists (
      select from pg_publication_tables
      where pubname = 'supabase_realtime' and schemaname = 'public' and tablename = 'message_templates'
    )
  then
    alter publication supabase_realtime add table public.message_templates;
  end if;
end
$$;

