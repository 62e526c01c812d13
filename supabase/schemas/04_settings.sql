-- Settings and texts of the shop that staff edit.

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

-- Execution rights
grant execute on function public.staff_settings to authenticated, service_role;
