-- Earlier versions keep working: the new columns have defaults, and their saves leave the columns as they are.

alter table public.store_settings
  add column seller_address text not null default '',
  add column seller_registration text not null default '',
  add column kra_pin text not null default '',
  add constraint "an address of the seller is one line or empty"
    check (char_length(seller_address) <= 200 and seller_address !~ '[\u0001-\u001f\u007f-\u009f]'),
  add constraint "a registration of the seller is one line or empty"
    check (char_length(seller_registration) <= 80 and seller_registration !~ '[\u0001-\u001f\u007f-\u009f]'),
  add constraint "a KRA PIN is A or P, nine digits and a letter, or empty" check (kra_pin ~ '^([AP]\d{9}[A-Z])?$');

comment on column public.store_settings.seller_address is 'Where the seller can be found, on the contact page and receipts. Empty: not shown.';
comment on column public.store_settings.seller_registration is 'Number of the business registration, as seller_address.';
comment on column public.store_settings.kra_pin is 'PIN of the Kenya Revenue Authority, also the number for VAT, as seller_address.';

grant update (seller_address, seller_registration, kra_pin) on public.store_settings to authenticated;
grant select (seller_address, seller_registration, kra_pin) on public.store_settings to anon, authenticated;
