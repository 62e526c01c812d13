-- Settings and texts of the shop that staff edit.

-- One row: who the shop is and what delivery costs.
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
  constraint "messages of payments are kept between one and twenty years" check (payment_messages_months between 12 and 240),
  constraint "somebody may order" check (unpaid_orders_per_phone between 1 and 100),
  constraint "a share of the stock can be reserved" check (reserved_share_percent between 1 and 100),
  constraint "daily message budgets are bounded"
    check (texts_per_day between 0 and 100000 and mails_per_day between 0 and 100000),
  constraint "personal details of orders are kept between one month and twenty years"
    check (order_details_months between 1 and 240),
  constraint "inquiries are kept between one month and twenty years" check (inquiries_months between 1 and 240)
);
comment on table public.store_settings is 'The one row of facts about the shop that every screen reads.';
comment on column public.store_settings.delivery_fee is 'In cents; 0 means free. The only figure the total is computed with.';
comment on column public.store_settings.updated_at is
  'Changes with every edit. A save names the value that it saw, and changes nothing if it has changed since.';
comment on column public.store_settings.till_number is 'The till (Buy Goods) that customers may pay by hand; empty when there is none.';
comment on column public.store_settings.paybill_number is
  'The paybill that customers may pay by hand, with the tracking number as account; empty when there is none.';
comment on column public.store_settings.refuses_unknown_payments is
  'Whether payments by hand without an order''s number, or of another amount than its charge, are turned away before they are made. Needs M-PESA''s validation.';
comment on column public.store_settings.refund_approval_above is
  'In cents. A refund by M-PESA of more than this waits for a second member of staff.';
comment on column public.store_settings.payment_messages_months is
  'For how many months M-PESA''s messages are stored verbatim, with the payer''s name. Kenya asks for records of five years after the year they are of.';
comment on column public.store_settings.unpaid_orders_per_phone is
  'How many orders of one phone may wait to be paid at a time, in one network; ten times as many of all its phones. Wider networks: private.allowance_factor.';
comment on column public.store_settings.support_email is 'Checked by the trigger store_settings_before_change with private.is_email.';
comment on column public.store_settings.reserved_share_percent is
  'Percentage of a product''s units that unpaid orders may hold from placing. Orders beyond it hold units only while a prompt is open.';
comment on column public.store_settings.texts_per_day is
  'Maximum texts to customers per day in Nairobi. 0 sends none. Messages that visitors cause without paying may use half of it.';
comment on column public.store_settings.mails_per_day is 'The same for emails.';
comment on column public.store_settings.order_details_months is
  'For how many months an order keeps its customer''s name, e-mail, phone, address and notes. The order itself stays in the books.';
comment on column public.store_settings.inquiries_months is 'For how many months inquiries are stored.';
comment on column public.store_settings.requires_terms_tick is
  'Whether customers tick a box above Place Order that they are 18 or older and accept terms and privacy notice. place_order then refuses orders without it.';
alter table public.store_settings enable row level security;
grant select on public.store_settings to anon, authenticated;
grant update (
  store_name, support_phone, chat_phone, support_email, instagram_url, facebook_url, tiktok_url,
  delivery_fee, reservation_minutes, updated_at
) on public.store_settings to authenticated;
grant update (till_number, paybill_number) on public.store_settings to authenticated;
grant update (refuses_unknown_payments) on public.store_settings to authenticated;
grant update (refund_approval_above) on public.store_settings to authenticated;
-- Visitors do not see the refund limit and which payments are refused.
revoke select on public.store_settings from anon;
grant select (
  id, store_name, support_phone, chat_phone, support_email, instagram_url, facebook_url, tiktok_url, delivery_fee,
  reservation_minutes, till_number, paybill_number, updated_at
) on public.store_settings to anon;
-- Signed-in users read the same settings as visitors; staff_settings returns the others to staff.
revoke select on public.store_settings from authenticated;
grant select (
  id, store_name, support_phone, chat_phone, support_email, instagram_url, facebook_url, tiktok_url, delivery_fee,
  reservation_minutes, till_number, paybill_number, updated_at
) on public.store_settings to authenticated;
grant update (payment_messages_months) on public.store_settings to authenticated;
grant update (unpaid_orders_per_phone) on public.store_settings to authenticated;
grant update (reserved_share_percent) on public.store_settings to authenticated;
grant update (texts_per_day, mails_per_day) on public.store_settings to authenticated;
grant update (order_details_months, inquiries_months) on public.store_settings to authenticated;
-- The privacy notice names these periods.
grant select (order_details_months, inquiries_months, payment_messages_months) on public.store_settings to anon, authenticated;
grant select (requires_terms_tick), update (requires_terms_tick) on public.store_settings to authenticated;
grant select (requires_terms_tick) on public.store_settings to anon;
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
  'Texts of the contact page in Markdown; slug is the anchor there. {name} stands for a value of the settings (domain/shop-text.ts).';
comment on column public.shop_texts.updated_at is
  'Changes with every edit. A save names the value that was read, and changes nothing if it is another by now.';
alter table public.shop_texts enable row level security;
grant select on public.shop_texts to anon, authenticated;
grant update (title, body, updated_at) on public.shop_texts to authenticated;
create policy "everyone reads the texts of the shop" on public.shop_texts for select to anon, authenticated using (true);
create policy "staff edit the texts of the shop" on public.shop_texts
  for update to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));

create function private.time_of_edit(old jsonb, new jsonb) returns timestamptz
language sql volatile set search_path = '' as $$
  -- A save names the updated_at that it saw: two edits never have the same, even when the clock is set back.
  select case
    when old - 'updated_at' is distinct from new - 'updated_at'
    then greatest(clock_timestamp(), (old ->> 'updated_at')::timestamptz + interval '1 microsecond')
    else (old ->> 'updated_at')::timestamptz
  end;
$$;
comment on function private.time_of_edit is 'updated_at of an edited row: later than before when anything else changed, else as before.';

create function private.date_settings_edit() returns trigger
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
comment on function public.staff_settings is
  'For staff: every setting, those included that only staff decide by (refund_approval_above, refuses_unknown_payments, payment_messages_months).';

create function private.expect_support_email(email text) returns void
language plpgsql set search_path = '' as $$
begin
  if not private.is_email(expect_support_email.email) then
    raise exception using
      errcode = 'check_violation',
      message = 'new row for relation "store_settings" violates the rule "the support address is an e-mail address"',
      constraint = 'the support address is an e-mail address';
  end if;
end
$$;

create trigger shop_texts_date_their_edit before update on public.shop_texts
  for each row execute function private.date_settings_edit();

-- Who may call these functions
grant execute on function public.staff_settings to authenticated, service_role;
