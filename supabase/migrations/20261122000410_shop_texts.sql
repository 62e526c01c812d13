-- Texts of the shop that staff edit: questions and answers, privacy notice, terms. The contact page shows them.

alter table public.store_settings
  add column order_details_months integer not null default 24,
  add column inquiries_months integer not null default 12,
  add constraint "personal details of orders are kept between one month and twenty years"
    check (order_details_months between 1 and 240),
  add constraint "inquiries are kept between one month and twenty years" check (inquiries_months between 1 and 240);
comment on column public.store_settings.order_details_months is
  'For how many months an order keeps its customer''s name, e-mail, phone, address and notes. The order itself stays in the books.';
comment on column public.store_settings.inquiries_months is 'For how many months inquiries are kept.';
grant update (order_details_months, inquiries_months) on public.store_settings to authenticated;
-- The privacy notice names them.
grant select (order_details_months, inquiries_months, payment_messages_months) on public.store_settings to anon, authenticated;

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
  'Texts of the contact page in Markdown; slug is the anchor there. {name} stands for a value of the settings (domain/shop-text.ts).';
comment on column public.shop_texts.updated_at is
  'Changes with every edit. A save names the value that was read, and changes nothing if it is another by now.';
alter table public.shop_texts enable row level security;
create policy "everyone reads the texts of the shop" on public.shop_texts for select to anon, authenticated using (true);
create policy "staff edit the texts of the shop" on public.shop_texts
  for update to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));
grant select on public.shop_texts to anon, authenticated;
grant update (title, body, updated_at) on public.shop_texts to authenticated;

create trigger shop_texts_date_their_edit before update on public.shop_texts
  for each row execute function private.date_settings_edit();
create trigger shop_texts_change_pages after update on public.shop_texts
  for each row
  when (old.* is distinct from new.*)
  execute function private.announce_page_change();
create trigger shop_texts_come_and_go_on_pages after insert or delete or truncate on public.shop_texts
  for each statement execute function private.announce_page_change();

do $$
begin
  if exists (select from pg_publication where pubname = 'supabase_realtime') then
    alter publication supabase_realtime add table public.shop_texts;
  end if;
end
$$;

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
) as written (slug, title, body);
