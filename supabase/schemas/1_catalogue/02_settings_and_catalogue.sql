-- What staff edit: settings and texts of the shop, categories (flavours) and products. Prices are in cents.

-- Settings and texts

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
  payment_limit integer not null default 25000000,
  orders_pause_reason text,
  orders_paused_until timestamptz,
  takes_cash boolean not null default true,
  offers_cash boolean not null default false,
  opening_hours jsonb not null default '[]',
  days_off jsonb not null default '[]',
  queue_minutes integer not null default 5,
  announces_delays boolean not null default true,
  asks_delivery_code boolean not null default true,
  seller_address text not null default '',
  seller_registration text not null default '',
  kra_pin text not null default '',
  offers_stock_alerts boolean not null default true,
  constraint "there is one row of settings" check (id),
  constraint "the store has a name" check (char_length(trim(store_name)) between 1 and 80),
  constraint "the delivery fee is not negative" check (delivery_fee between 0 and 100000000),
  constraint "M-PESA takes a payment of at least one shilling" check (payment_limit between 100 and 100000000),
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
  constraint "inquiries are stored between one month and twenty years" check (inquiries_months between 1 and 240),
  constraint "the queue adds at most an hour" check (queue_minutes between 0 and 60),
  constraint "cash is offered only where it is taken" check (takes_cash or not offers_cash),
  constraint "an address of the seller is one line or empty"
    check (char_length(seller_address) <= 200 and seller_address !~ '[\u0001-\u001f\u007f-\u009f]'),
  constraint "a registration of the seller is one line or empty"
    check (char_length(seller_registration) <= 80 and seller_registration !~ '[\u0001-\u001f\u007f-\u009f]'),
  constraint "a KRA PIN is A or P, nine digits and a letter, or empty" check (kra_pin ~ '^([AP]\d{9}[A-Z])?$'),
  constraint "a pause of orders has a reason"
    check (char_length(trim(orders_pause_reason)) between 1 and 80 or (orders_pause_reason is null and orders_paused_until is null))
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
  'Maximum unpaid orders of one phone in one network (of all phones: waiting_orders in private.limits). Wider networks: private.allowance_factor.';
comment on column public.store_settings.reserved_share_percent is
  'Percentage of a product''s units that unpaid orders may hold from placing. Orders beyond it hold units for some minutes from a prompt.';
comment on column public.store_settings.texts_per_day is
  'Maximum texts to customers per day in Nairobi. 0: none. Messages that visitors cause without paying may use half of it.';
comment on column public.store_settings.mails_per_day is 'Maximum emails per day, as texts_per_day.';
comment on column public.store_settings.order_details_months is
  'Months until an order is anonymised. The order itself stays in the books.';
comment on column public.store_settings.requires_terms_tick is
  'Whether place_order requires the box for being 18 or older and accepting terms and privacy notice.';
comment on column public.store_settings.payment_limit is
  'In cents: the most that M-PESA takes in one payment, and so the largest total of an order.';
comment on column public.store_settings.takes_cash is 'Whether staff may agree on cash at the door and note cash.';
comment on column public.store_settings.offers_cash is
  'Whether customers may choose cash at the door themselves (choose_cash).';
comment on column public.store_settings.opening_hours is
  'When the shop delivers: spans {day, from, to} of ISO weekdays in Nairobi. Empty: always. Orders are taken at any time.';
comment on column public.store_settings.days_off is 'Days {day, reason} on which the shop does not deliver.';
comment on column public.store_settings.queue_minutes is
  'Minutes that every ten orders that have not left the shop add to the promise of the next ones, at most 60 in all.';
comment on column public.store_settings.announces_delays is 'Whether the customer of a late order gets a message with a new time (announce_delays).';
comment on column public.store_settings.asks_delivery_code is
  'Whether riders of the list need the code of the customer to finish a delivery on their page.';
comment on column public.store_settings.seller_address is 'Where the seller can be found, on the contact page and receipts. Empty: not shown.';
comment on column public.store_settings.seller_registration is 'Number of the business registration, as seller_address.';
comment on column public.store_settings.kra_pin is 'PIN of the Kenya Revenue Authority, also the number for VAT, as seller_address.';
comment on column public.store_settings.offers_stock_alerts is
  'Whether visitors may ask for a text when a product is in stock again, and such texts are sent.';
comment on column public.store_settings.orders_pause_reason is
  'Why the shop takes no new orders, as customers read it. Null: it takes them. Changed by pause_orders and resume_orders.';
comment on column public.store_settings.orders_paused_until is
  'When it takes orders again by itself. Null with a reason: when staff resume. A pause that is over leaves reason and end as they are.';
alter table public.store_settings enable row level security;
grant update (
  store_name, support_phone, chat_phone, support_email, instagram_url, facebook_url, tiktok_url, delivery_fee, reservation_minutes,
  updated_at, till_number, paybill_number, refuses_unknown_payments, refund_approval_above, payment_messages_months,
  unpaid_orders_per_phone, reserved_share_percent, texts_per_day, mails_per_day, order_details_months, inquiries_months,
  requires_terms_tick, payment_limit, takes_cash, offers_cash, opening_hours, days_off, queue_minutes, announces_delays, asks_delivery_code,
  seller_address, seller_registration, kra_pin, offers_stock_alerts
) on public.store_settings to authenticated;
-- The other settings are for staff only (staff_settings). The privacy notice shows the retention periods.
grant select (
  id, store_name, support_phone, chat_phone, support_email, instagram_url, facebook_url, tiktok_url, delivery_fee,
  reservation_minutes, till_number, paybill_number, updated_at, order_details_months, inquiries_months, payment_messages_months,
  requires_terms_tick, payment_limit, orders_pause_reason, orders_paused_until,
  offers_cash, opening_hours, days_off, seller_address, seller_registration, kra_pin, offers_stock_alerts
) on public.store_settings to anon, authenticated;
create policy "everyone reads the settings" on public.store_settings for select to anon, authenticated using (true);
create policy "staff edit the settings" on public.store_settings
  for update to authenticated using ((select public.may('settings'))) with check ((select public.may('settings')));

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
  'Texts of the contact page in Markdown; slug is the anchor. {name} is replaced by a setting (domain/messages/shop-text.ts).';
alter table public.shop_texts enable row level security;
grant select on public.shop_texts to anon, authenticated;
grant update (title, body, updated_at) on public.shop_texts to authenticated;
create policy "everyone reads the texts of the shop" on public.shop_texts for select to anon, authenticated using (true);
create policy "staff edit the texts of the shop" on public.shop_texts
  for update to authenticated using ((select public.may('settings'))) with check ((select public.may('settings')));

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
  new := private.without_invisible_texts(new);
  new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  return new;
end
$$;

create function public.staff_settings() returns public.store_settings
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('panel');
  return (select s from public.store_settings as s);
end
$$;
comment on function public.staff_settings is 'For staff: all settings, also those that visitors may not read.';

create trigger shop_texts_before_change before update on public.shop_texts
  for each row execute function private.before_text_change();

-- Catalogue

create table public.categories (
  id uuid primary key default gen_random_uuid(),
  name text not null,
  is_active boolean not null default true,
  created_at timestamptz not null default now(),
  slug text not null default '',
  page_text text not null default '',
  updated_at timestamptz not null default now(),
  constraint "category names are unique" unique (name),
  constraint "category slugs are unique" unique (slug),
  constraint "a category has a name" check (char_length(trim(name)) between 1 and 80),
  constraint "a category's slug is lower-case letters, digits and hyphens" check (slug ~ '^[a-z0-9]+(-[a-z0-9]+)*$'),
  constraint "the text of a flavor's page is at most 2,000 characters" check (char_length(page_text) <= 2000)
);
comment on table public.categories is 'Flavours of products. Products follow a rename.';
comment on column public.categories.slug is
  'Of its page, /flavors/{slug}. Made from the first name (private.free_slug); a rename keeps it, so that links stay valid.';
comment on column public.categories.page_text is 'What its page says, as plain text. Empty: only the drinks.';
comment on column public.categories.updated_at is
  'Changes with every edit. A save of the text sends the value that it read, and changes nothing if the row has changed since.';
comment on column public.categories.is_active is 'Inactive: not offered in filters and forms; its products stay listed.';
alter table public.categories enable row level security;
grant select on public.categories to anon, authenticated;
grant insert (name, is_active), update (name, is_active, page_text) on public.categories to authenticated;
create policy "everyone reads active categories" on public.categories for select to anon, authenticated using (is_active);
create policy "staff read and edit every category" on public.categories
  for all to authenticated using ((select public.may('products'))) with check ((select public.may('products')));
create unique index "category names are unique in any case" on public.categories (lower(name));

create table public.products (
  id uuid primary key default gen_random_uuid(),
  name text not null,
  slug text not null,
  tagline text,
  description text,
  price integer not null,
  image_url text,
  category text,
  brand text,
  stock_quantity integer not null default 0,
  is_active boolean not null default true,
  home_section text,
  home_position integer,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  previous_price integer,
  sold_out_until timestamptz,
  low_stock_below integer,
  is_low_on_stock boolean not null generated always as (stock_quantity < coalesce(low_stock_below, 10)) stored,
  size text,
  khat_strength text,
  caffeine text,
  sweetened_with text,
  keeps text,
  allergens text,
  serving_note text,
  more_images text[] not null default '{}',
  reason_of_change text,
  constraint "product slugs are unique" unique (slug),
  constraint "a product has a name" check (char_length(trim(name)) between 1 and 160),
  constraint "a slug is lower-case letters, digits and hyphens" check (slug ~ '^[a-z0-9]+(-[a-z0-9]+)*$'),
  constraint "a price is not negative" check (price between 0 and 1000000000),
  constraint "a brand is at most 160 characters" check (char_length(brand) <= 160),
  constraint "stock is never below zero" check (stock_quantity >= 0),
  constraint "a product's category exists" foreign key (category) references public.categories (name) on update cascade,
  constraint "home sections are known" check (home_section in ('top_picks', 'drinks_on_offer')),
  constraint "an image is at an https URL or a path of this site" check (
    char_length(image_url) <= 2000
    and image_url ~ '^(https://[^/]|http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?/|/[^/])'
    and image_url !~ '[\\\s[:cntrl:]]'
  ),
  -- A constraint cannot look at each element: spaces, which no address has, hold them apart.
  constraint "at most four more images, each at such an address" check (
    cardinality(more_images) <= 4
    and array_position(more_images, null) is null
    and '' <> all (more_images)
    and array_to_string(more_images, '') !~ '[\\\s[:cntrl:]]'
    and char_length(array_to_string(more_images, '')) <= 2000
    and array_to_string(more_images, ' ')
      ~ '^((https://[^/ ]|http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?/|/[^/ ])[^ ]*( |$))*$'
  ),
  constraint "a previous price is above the price" check (previous_price > price and previous_price <= 1000000000),
  constraint "a low-stock threshold is not negative" check (low_stock_below between 0 and 1000000),
  -- The form has the same lengths (domain/products/product-facts.ts).
  constraint "facts of a product are within their lengths" check (
    char_length(size) between 1 and 40 and char_length(khat_strength) between 1 and 40 and char_length(caffeine) between 1 and 40
    and char_length(sweetened_with) between 1 and 80 and char_length(keeps) between 1 and 80
    and char_length(allergens) between 1 and 200 and char_length(serving_note) between 1 and 200
  ),
  constraint "facts of a product are one line each" check (
    concat(size, khat_strength, caffeine, sweetened_with, keeps, allergens, serving_note) !~ '[[:cntrl:]]'
  ),
  constraint "a reason is kept in the history alone" check (reason_of_change is null)
);
comment on table public.products is 'What the shop sells. Prices in cents.';
comment on column public.products.category is 'Name of the category (flavour).';
comment on column public.products.home_section is 'Section of the home page that shows the product, ordered by home_position.';
comment on column public.products.updated_at is
  'Changes with every edit except of the stock and of sold_out_until. A save sends the value that it read, and changes nothing if the row has changed since.';
comment on column public.products.previous_price is 'In cents: price before the current offer. Null: not on offer.';
comment on column public.products.sold_out_until is
  'Until then nobody can order it, whatever its stock. Changed by set_sold_out. Null or over: the stock decides.';
comment on column public.products.low_stock_below is 'Units below which the stock is low. 0: never. Null: the default, 10.';
comment on column public.products.is_low_on_stock is
  'Whether few units are left. Stored, so that it can be indexed: an index on stock_quantity would be updated by every order.';
comment on column public.products.more_images is 'Shown on its page after image_url, in this order.';
comment on column public.products.size is 'What one unit holds, such as "500 ml". With the next six: facts of the page, null where not known.';
comment on column public.products.khat_strength is 'Such as "Medium".';
comment on column public.products.caffeine is 'Such as "None added".';
comment on column public.products.sweetened_with is 'Such as "Wild honey".';
comment on column public.products.keeps is 'How long it keeps, such as "3 days in the fridge".';
comment on column public.products.allergens is 'Such as "None".';
comment on column public.products.reason_of_change is
  'Why an update changes the price or the stock, for their histories. Always null: the update''s trigger takes it.';
comment on column public.products.serving_note is 'How to serve it, such as "Shake well, pour over ice".';
alter table public.products enable row level security;
grant select on public.products to anon, authenticated;
grant
  insert (
    name, slug, tagline, description, price, previous_price, image_url, category, brand, stock_quantity, is_active, home_section,
    home_position, low_stock_below, size, khat_strength, caffeine, sweetened_with, keeps, allergens, serving_note, more_images
  ),
  update (
    name, slug, tagline, description, price, previous_price, image_url, category, brand, stock_quantity, is_active, home_section,
    home_position, low_stock_below, size, khat_strength, caffeine, sweetened_with, keeps, allergens, serving_note, more_images,
    updated_at, reason_of_change
  ),
  delete on public.products to authenticated;
create policy "everyone reads active products" on public.products for select to anon, authenticated using (is_active);
create policy "staff read and edit every product" on public.products
  for all to authenticated using ((select public.may('products'))) with check ((select public.may('products')));
create index products_newest_first on public.products (created_at desc);
create index products_by_category on public.products (category, created_at desc, id desc);
create index products_by_part_of_their_name on public.products using gin (lower(name) extensions.gin_trgm_ops) with (fastupdate = off);
-- Sort orders of the shop page. Those by brand and by flavour serve its filters, too.
create index products_shown_newest_first on public.products (created_at desc, id) where is_active;
create index products_shown_by_price on public.products (price, created_at desc, id) where is_active;
create index products_shown_by_brand on public.products (lower(brand), brand, created_at desc, id) where is_active;
create index products_shown_by_flavour on public.products (lower(category), category, created_at desc, id) where is_active;
create index products_on_the_home_page on public.products (home_section, home_position) where home_section is not null;
create index products_low_on_stock on public.products (created_at desc, id desc) where is_active and is_low_on_stock;

create table private.catalogue_counts (
  category text not null,
  brand text not null,
  products integer not null,
  primary key (category, brand)
);
comment on table private.catalogue_counts is
  'How many active products each pair of flavour and brand has, empty for none. Changes with them, so that no page reads the catalogue to count it.';
alter table private.catalogue_counts enable row level security;

create function private.count_active_products(old public.products, new public.products) returns void
language plpgsql set search_path = '' as $$
declare
  change record;
begin
  -- Always in the same order, so that two edits cannot deadlock.
  for change in
    select moved.category, moved.brand, sum(moved.difference) as products
    from (
      select coalesce(old.category, ''), coalesce(old.brand, ''), -1 where old.is_active
      union all
      select coalesce(new.category, ''), coalesce(new.brand, ''), 1 where new.is_active
    ) as moved (category, brand, difference)
    group by 1, 2
    having sum(moved.difference) <> 0
    order by 1, 2
  loop
    insert into private.catalogue_counts as c (category, brand, products)
    values (change.category, change.brand, change.products)
    on conflict (category, brand) do update set products = c.products + excluded.products;
    delete from private.catalogue_counts as c
    where c.category = change.category and c.brand = change.brand and c.products = 0;
  end loop;
end
$$;
comment on function private.count_active_products(public.products, public.products) is
  'Updates catalogue_counts with a product that was added (old is null), changed or deleted (new is null).';

create function public.product_and_related(product_slug text, related_limit integer default 3) returns setof public.products
language sql stable set search_path = '' as $$
  select p.*
  from public.products as p
  where octet_length(product_slug) <= 1000 and p.is_active and p.slug = product_slug
  union all
  (
    select r.*
    from public.products as p
    -- The first condition is the first column of the index in this order.
    cross join lateral (
      select r.* from public.products as r
      where lower(r.category) = lower(p.category) and r.category = p.category and r.id <> p.id and r.is_active
      order by r.created_at desc, r.id
      limit least(greatest(related_limit, 0), 24)
    ) as r
    where octet_length(product_slug) <= 1000 and p.is_active and p.slug = product_slug
  );
$$;
comment on function public.product_and_related is
  'The active product with this slug, then the newest others of its category. No row: no such product.';

create function public.home_products(newest integer default 6) returns setof public.products
language plpgsql stable rows 50
set search_path = ''
-- Finds a few products by index, in a catalogue of any size.
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
  return query
    select p.*
    from (
      select s.id from public.products as s where s.home_section is not null and s.is_active
      union
      (
        select n.id from public.products as n
        where n.is_active
        order by n.created_at desc
        limit least(greatest(home_products.newest, 0), 24)
      )
      union
      -- One product shows that its flavour is sold.
      select one.id
      from public.categories as c
      cross join lateral (
        select o.id from public.products as o where o.category = c.name and o.is_active limit 1
      ) as one
      where c.is_active
    ) as shown
    cross join lateral (select * from public.products as p where p.id = shown.id offset 0) as p
    order by p.created_at desc, p.id;
end
$$;
comment on function public.home_products is
  'What the home page is made from, newest first: the active products of its sections, the newest products, and one of each active category.';

create function private.shop_page_ids(brand text, category text, sort text, first integer, most integer) returns uuid[]
language plpgsql stable
set search_path = ''
-- Scans the index of the sort and stops early, for any filter that a visitor asks for.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
  ids uuid[];
begin
  execute format(
    'select array_agg(p.id order by p.place)
     from (
       select p.id, row_number() over (order by %2$s) as place from public.products as p where p.is_active%1$s
       order by %2$s offset $1 limit $2
     ) as p',
    -- The first part of each condition is the first column of its index.
    case when brand <> '' then format(' and lower(p.brand) = lower(%1$L) and p.brand = %1$L', brand) else '' end
    || case when category <> '' then format(' and lower(p.category) = lower(%1$L) and p.category = %1$L', category) else '' end,
    case sort
      when 'brand' then 'lower(p.brand), p.brand, '
      when 'flavor' then 'lower(p.category), p.category, '
      when 'price' then 'p.price, '
      else ''
    end || 'p.created_at desc, p.id'
  ) into ids using first, most;
  return ids;
end
$$;

create function public.serving(product public.products) returns text
language sql immutable set search_path = '' as $$
  select nullif(concat_ws(' · ', coalesce(product.size, said.size), coalesce(
    substring(product.slug from '-(bottle|can|flask|jug|carton|pouch)$'),
    lower(substring(said.after_size from '(?i)^(?:\s+[[:alpha:]-]+){0,2}?\s+(bottle|can|flask|jug|carton|pouch)\M'))
  )), '')
  from (
    select
      regexp_replace(lower(found[1]), '(\d)\s*(ml|cl|l)$', '\1 \2') as size,
      found[2] as after_size
    from (select regexp_match(product.description, '(?i)\m(\d+(?:\.\d+)?\s?(?:ml|cl|l))\M(.{0,60})') as found) as named
  ) as said;
$$;
comment on function public.serving is
  'Computed column: size and vessel of a product, such as "500 ml · bottle": its size, else that of its description, and the vessel at the end of its slug or after that size. Null where neither is known.';

create function public.shop_page(
  search text default '',
  brand text default null,
  category text default null,
  sort text default null,
  page integer default 1
) returns jsonb
language plpgsql stable security definer
set search_path = ''
set enable_seqscan = off
set jit = off
as $$
declare
  page_size constant integer := 60;
  most_found constant integer := 250;
  wanted text := trim(left(coalesce(shop_page.search, ''), 200));
  of_brand text := left(shop_page.brand, 200);
  of_category text := left(shop_page.category, 200);
  before integer := (least(greatest(coalesce(shop_page.page, 1), 1), 1000) - 1) * page_size;
  is_whole boolean := (select count(*) from (select from public.products as p where p.is_active limit page_size + 1) as few) <= page_size;
  terms private.search_terms;
  found_ids uuid[];
  shown_ids uuid[];
  matching integer;
begin
  if wanted <> '' then
    terms := private.read_search(wanted);
    found_ids := private.found_products(terms, most_found);
  end if;
  if is_whole then
    shown_ids := private.shop_page_ids(null, null, null, 0, page_size);
    matching := coalesce(cardinality(shown_ids), 0);
  elsif wanted <> '' then
    select array_agg(f.id order by f.place) filter (where f.place > before and f.place <= before + page_size), count(*)
    into shown_ids, matching
    from (
      select p.id, row_number() over (
        order by
          case shop_page.sort when 'brand' then lower(p.brand) when 'flavor' then lower(p.category) end,
          case shop_page.sort when 'brand' then p.brand when 'flavor' then p.category end,
          case shop_page.sort when 'price' then p.price end,
          case when shop_page.sort in ('popularity', 'brand', 'flavor', 'price') then p.created_at end desc,
          match.place
      ) as place
      from unnest(found_ids) with ordinality as match (id, place)
      cross join lateral (select * from public.products as p where p.id = match.id offset 0) as p
      where (coalesce(of_brand, '') in ('', p.brand)) and (coalesce(of_category, '') in ('', p.category))
    ) as f;
  else
    select coalesce(sum(c.products), 0) into matching
    from private.catalogue_counts as c
    where coalesce(of_brand, '') in ('', c.brand) and coalesce(of_category, '') in ('', c.category);
    shown_ids := private.shop_page_ids(of_brand, of_category, shop_page.sort, before, page_size);
  end if;
  return jsonb_build_object(
    'is_whole', is_whole,
    'count', matching,
    'may_be_more', coalesce(cardinality(found_ids), 0) = most_found,
    'pages', greatest((matching + page_size - 1) / page_size, 1),
    'products', coalesce((
      select jsonb_agg(
        jsonb_build_object(
          'slug', p.slug, 'name', p.name, 'tagline', p.tagline, 'price', p.price, 'previous_price', p.previous_price,
          'image_url', p.image_url, 'category', p.category, 'brand', p.brand, 'stock_quantity', public.units_for_sale(p),
          'sold_out_until', p.sold_out_until, 'serving', public.serving(p)
        ) order by s.place
      )
      from unnest(case when matching > 0 then shown_ids else private.shop_page_ids(null, null, null, 0, 12) end)
        with ordinality as s (id, place)
      cross join lateral (select * from public.products as p where p.id = s.id offset 0) as p
    ), '[]'),
    'brands', (
      select coalesce(jsonb_agg(distinct c.brand order by c.brand), '[]')
      from private.catalogue_counts as c where c.brand <> ''
    ),
    'categories', (
      select coalesce(jsonb_agg(distinct c.category order by c.category), '[]')
      from private.catalogue_counts as c
      join public.categories as k on k.name = c.category and k.is_active
    ),
    'brand_slugs', (
      select coalesce(jsonb_object_agg(b.name, b.slug), '{}')
      from public.brands as b where b.name in (select c.brand from private.catalogue_counts as c)
    ),
    'category_slugs', (
      select coalesce(jsonb_object_agg(k.name, k.slug), '{}')
      from public.categories as k
      where k.is_active and k.name in (select c.category from private.catalogue_counts as c)
    ),
    'found', case when is_whole and wanted <> '' then (
      select coalesce(jsonb_agg(p.slug order by f.place), '[]')
      from unnest(found_ids) with ordinality as f (id, place)
      cross join lateral (select * from public.products as p where p.id = f.id offset 0) as p
    ) end,
    'correction', case when wanted <> '' then private.better_search(terms) end,
    'most_cents', terms.most_cents
  );
end
$$;
comment on function public.shop_page(text, text, text, text, integer) is
  'What the shop page shows. Up to 60 active products are all given, newest first, with the slugs that a search found, best first. Of more products, 60 per page that match the search, brand and flavour, in the order of sort; if none does, the newest 12. brand_slugs, category_slugs: the pages of brands and flavours, by their names. most_cents: the highest price that the search names. count: products that match; may_be_more: the search has reached its 250 best matches.';

create policy "everyone reads product images" on storage.objects
  for select to anon, authenticated using (bucket_id = 'product-images');
create policy "staff edit product images" on storage.objects for all to authenticated
  using (bucket_id = 'product-images' and (storage.foldername(name))[1] = 'products' and (select public.may('products')))
  with check (bucket_id = 'product-images' and (storage.foldername(name))[1] = 'products' and (select public.may('products')));

-- Execution rights
grant execute on function public.product_and_related, public.home_products, public.shop_page, public.serving
  to anon, authenticated, service_role;
grant execute on function public.staff_settings to authenticated, service_role;
