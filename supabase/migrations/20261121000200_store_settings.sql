-- Store settings: one row that says who the shop is and what delivery costs.

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
  constraint "there is one row of settings" check (id),
  constraint "the store has a name" check (char_length(trim(store_name)) between 1 and 80),
  constraint "the delivery fee is not negative" check (delivery_fee between 0 and 100000000),
  constraint "a reservation lasts minutes" check (reservation_minutes between 1 and 1440)
);
comment on table public.store_settings is 'The one row of facts about the shop that every screen reads.';
comment on column public.store_settings.delivery_fee is 'In cents; 0 means free. The only figure the total is computed with.';
alter table public.store_settings enable row level security;

create policy "everyone reads the settings" on public.store_settings for select to anon, authenticated using (true);
create policy "staff edit the settings" on public.store_settings
  for update to authenticated using ((select public.is_admin())) with check ((select public.is_admin()));
grant select on public.store_settings to anon, authenticated;
grant update (
  store_name, support_phone, chat_phone, support_email, instagram_url, facebook_url, tiktok_url,
  delivery_fee, reservation_minutes, updated_at
) on public.store_settings to authenticated;

insert into public.store_settings default values;
