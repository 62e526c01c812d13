-- Earlier versions keep working: everyone who is staff becomes an owner, who may do what staff could do before, and rows of
-- admin_profiles without a role are owners, too.

alter table public.admin_profiles
  add column role text not null default 'owner',
  add column name text not null default '',
  add column invited_at timestamptz,
  add column invited_by uuid;
comment on column public.admin_profiles.role is
  'What a member may do (private.areas_of). Default: owner, because rows without a role come from the command for the first owner.';
comment on column public.admin_profiles.invited_at is 'When the last invitation was sent. Null: the account was not invited from the panel.';
comment on column public.admin_profiles.name is 'Shown to colleagues instead of the email address. Empty: none was given.';

alter table public.refunds
  add column approved_at timestamptz,
  add column approved_alone boolean not null default false;
comment on column public.refunds.approved_alone is
  'The requester approved it, as the only owner, after a second factor and ten minutes.';

comment on type public.payment_health is
  'pause: null while prompts work; after its until the next prompt is sent as a probe. refunds_to_approve_by_me: those that other staff requested; 0 for a role that may not approve. limit_raise: the last one of the past week, amounts in cents; current_limit applies now.';

create type public.audit_row as (
  id text, created_at timestamptz, area text, kind text, actor_id uuid, actor_email text, subject text, before jsonb, after jsonb
);

drop trigger profiles_after_change on public.admin_profiles;

alter table public.refunds drop constraint "a second staff member approves above the limit";

drop function private.expect_staff();

drop function private.expect_staff_member();

drop function private.staff_emails(uuid);

drop policy "staff read who downloaded backups" on public.backup_downloads;

drop policy "staff read every backup" on public.backups;

drop policy "staff read every blocked phone" on public.blocked_phones;

drop policy "staff read every count" on public.cash_counts;

drop policy "staff read and edit every category" on public.categories;

drop policy "staff read every note of change" on public.change_notes;

drop policy "staff read every note about customers" on public.customer_notes;

drop policy "staff read every close" on public.day_closes;

drop policy "staff read and edit every delivery" on public.deliveries;

drop policy "staff read and edit the discount codes" on public.discount_codes;

drop policy "staff read every inquiry" on public.inquiries;

drop policy "staff read every answer" on public.inquiry_answers;

drop policy "staff read and edit the templates" on public.message_templates;

drop policy "staff read every message to check" on public.messages_to_check;

drop policy "staff read every transaction" on public.mpesa_transactions;

drop policy "staff read every subscription" on public.newsletter_subscriptions;

drop policy "staff read every notice" on public.notices;

drop policy "staff read every order's timeline" on public.order_events;

drop policy "staff read every order item" on public.order_items;

drop policy "staff read every pause" on public.order_pauses;

drop policy "staff read and edit every order" on public.orders;

drop policy "staff read every message" on public.outbox_messages;

drop policy "staff read the page views" on public.page_views;

drop policy "staff read every payment message" on public.payment_messages;

drop policy "staff read every payment" on public.payments;

drop policy "staff read the requests" on public.personal_data_requests;

drop policy "staff read every price change" on public.price_changes;

drop policy "staff read and edit every product" on public.products;

drop policy "staff read every decision" on public.reconciliation_events;

drop policy "staff read every refund" on public.refunds;

drop policy "staff read and edit the reply templates" on public.reply_templates;

drop policy "staff read and edit the synonyms" on public.search_synonyms;

drop policy "staff edit the texts of the shop" on public.shop_texts;

drop policy "staff read every pull" on public.statement_pulls;

drop policy "staff read every stock change" on public.stock_changes;

drop policy "staff edit the settings" on public.store_settings;

drop policy "staff edit product images" on storage.objects;

alter table public.refunds add constraint "a second staff member approves above the limit" CHECK (((method <> 'reversal'::text) OR (NOT needs_approval) OR (status = ANY (ARRAY['requested'::text, 'withdrawn'::text])) OR ((approved_by IS NOT NULL) AND (requested_by IS NOT NULL) AND ((approved_by <> requested_by) OR approved_alone))));

alter table public.admin_profiles add constraint "a name is one line of up to 60 characters" CHECK ((name ~ '^[^\u0001-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]{0,60}$'::text));

alter table public.admin_profiles add constraint "a role is known" CHECK ((role = ANY (ARRAY['owner'::text, 'staff'::text, 'counter'::text])));

-- The rights of the roles: the only place in the database that states them (docs/decisions/roles.md).
create or replace function private.areas_of(role text) returns text[]
language sql immutable
return case role
  when 'counter' then array['panel', 'deliveries', 'cash']
  when 'staff' then array['panel', 'deliveries', 'cash', 'orders', 'products', 'inquiries', 'messages', 'refunds', 'figures']
  when 'owner' then array[
    'panel', 'deliveries', 'cash', 'orders', 'products', 'inquiries', 'messages', 'refunds', 'figures',
    'approvals', 'reconciliation', 'personal_data', 'settings', 'team'
  ]
end;

comment on function private.areas_of is
  'The areas in which a role may read and write. panel: what every screen needs. deliveries: Today and deliveries. refunds: up to the limit; approvals: above it. domain/staff-rights.ts repeats it for screens.';

create or replace function public.may(area text) returns boolean
language plpgsql stable security definer set search_path = '' as $$
begin
  return public.is_admin() and exists (
    select from public.admin_profiles as profile
    where profile.user_id = (select auth.uid()) and may.area = any (private.areas_of(profile.role))
  );
end
$$;

comment on function public.may is
  'Whether the caller is active staff (is_admin) with a role that has the area. Staff policies and procedures check this.';

create or replace function private.counter_days() returns integer
language sql immutable
return 7;

comment on function private.counter_days is 'For how many days, today included, the role counter sees closed orders.';

-- Only the counter's policies call it: all other staff see every order before this is asked.
create or replace function public.is_recent_order(order_id uuid) returns boolean
language plpgsql stable security definer cost 1 set search_path = '' as $$
declare
  since constant timestamptz := (private.nairobi_day(now()) - private.counter_days() + 1)::timestamp at time zone 'Africa/Nairobi';
begin
  return exists (
    select from public.orders as o
    where o.id = is_recent_order.order_id and (
      private.is_open_order(o.status) or o.created_at >= since
      or exists (select from public.deliveries as d where d.order_id = o.id and d.created_at >= since)
    )
  );
end
$$;

comment on function public.is_recent_order is
  'Whether an order is open, or was placed or paid in the last seven days: what the role counter sees (docs/decisions/roles.md).';

-- For security definer functions that act for staff.
create or replace function private.refuse_staff() returns void
language plpgsql stable set search_path = '' as $$
begin
  if public.is_admin() then
    perform private.refuse(403, 'not_in_role', 'Your role does not include this. Please ask an owner');
  end if;
  perform private.refuse(403, 'staff_only', 'Only staff may do this');
end
$$;

create or replace function private.expect_staff(area text) returns void
language plpgsql stable set search_path = '' as $$
begin
  if not (public.may(expect_staff.area) or (select auth.role()) is not distinct from 'service_role') then
    perform private.refuse_staff();
  end if;
end
$$;

comment on function private.expect_staff is 'Refuses callers other than staff whose role has the area, and the shop itself.';

create or replace function private.expect_staff_member(area text) returns uuid
language plpgsql stable set search_path = '' as $$
begin
  if not public.may(expect_staff_member.area) or (select auth.uid()) is null then
    perform private.refuse_staff();
  end if;
  return (select auth.uid());
end
$$;

comment on function private.expect_staff_member is
  'The calling staff member, whose role has the area; refuses all other callers, the shop itself included.';

-- Execution rights
grant execute on function public.is_admin, public.may, public.is_recent_order to authenticated, service_role;

create policy "staff edit the settings" on public.store_settings
  for update to authenticated using ((select public.may('settings'))) with check ((select public.may('settings')));

create policy "staff edit the texts of the shop" on public.shop_texts
  for update to authenticated using ((select public.may('settings'))) with check ((select public.may('settings')));

create or replace function public.staff_settings() returns public.store_settings
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('panel');
  return (select s from public.store_settings as s);
end
$$;

comment on function public.staff_settings is 'For staff: all settings, also those that visitors may not read.';

create policy "staff read and edit every category" on public.categories
  for all to authenticated using ((select public.may('products'))) with check ((select public.may('products')));

create policy "staff read and edit every product" on public.products
  for all to authenticated using ((select public.may('products'))) with check ((select public.may('products')));

create policy "staff edit product images" on storage.objects for all to authenticated
  using (bucket_id = 'product-images' and (storage.foldername(name))[1] = 'products' and (select public.may('products')))
  with check (bucket_id = 'product-images' and (storage.foldername(name))[1] = 'products' and (select public.may('products')));

grant execute on function public.staff_settings to authenticated, service_role;

create policy "staff read every pause" on public.order_pauses for select to authenticated using ((select public.may('orders')));

create or replace function public.pause_orders(reason text, minutes integer default null) returns void
language plpgsql volatile security definer set search_path = '' as $$
declare
  shown text;
begin
  perform private.expect_staff('orders');
  shown := rtrim(private.read_reason(pause_orders.reason, is_required => true), ' .');
  if char_length(shown) not between 1 and 80 or private.has_control_characters(shown) then
    perform private.refuse(400, 'reason_invalid', 'Customers read this: please write one line of at most 80 characters');
  elsif pause_orders.minutes not between 1 and 1440 then
    perform private.refuse(400, 'pause_invalid', 'A pause lasts up to 24 hours, or until you resume');
  end if;
  update public.store_settings as s
  set orders_pause_reason = shown, orders_paused_until = now() + make_interval(mins => pause_orders.minutes)
  where s.id;
end
$$;

comment on function public.pause_orders is
  'For staff: place_order refuses orders for some minutes (null: until resume_orders). Orders that exist are paid and delivered as usual.';

create or replace function public.resume_orders() returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform private.expect_staff('orders');
  update public.store_settings as s
  set orders_pause_reason = null, orders_paused_until = null
  where private.are_orders_paused(s);
end
$$;

comment on function public.resume_orders is 'For staff: ends a pause of orders.';

create or replace function public.set_sold_out(product_id uuid, span text default null) returns timestamptz
language plpgsql volatile security definer set search_path = '' as $$
declare
  ends_at timestamptz := case set_sold_out.span
    when 'hour' then now() + interval '1 hour'
    when 'tomorrow' then (private.nairobi_day(now()) + 1 + time '06:00') at time zone 'Africa/Nairobi'
  end;
begin
  perform private.expect_staff('products');
  if set_sold_out.span is not null and ends_at is null then
    perform private.refuse(400, 'span_unknown', 'A product is sold out for an hour or until tomorrow');
  end if;
  update public.products as p set sold_out_until = ends_at where p.id = set_sold_out.product_id;
  if not found then
    perform private.refuse(404, 'product_not_found', 'This product does not exist');
  end if;
  return ends_at;
end
$$;

comment on function public.set_sold_out is
  'For staff: nobody can order a product for an hour (span: hour) or until 6:00 of the next day in Nairobi (tomorrow), or its stock decides again (null). Its stock does not change. Returns the end.';

grant execute on function public.pause_orders, public.resume_orders, public.set_sold_out to authenticated, service_role;

create policy "staff read every price change" on public.price_changes
  for select to authenticated using ((select public.may('products')));

create policy "staff read every stock change" on public.stock_changes
  for select to authenticated using ((select public.may('products')));

create or replace function public.product_history(
  product_id uuid, before_stock_change bigint default null, before_price_change bigint default null, page_size integer default 50
) returns table (
  kind text, id bigint, from_value integer, to_value integer, cause text, order_id uuid, order_number text, changed_by_email text,
  changed_at timestamptz
)
language plpgsql stable security definer rows 50 set search_path = '' as $$
#variable_conflict use_column
declare
  most constant integer := least(greatest(coalesce(page_size, 50), 1), 200);
begin
  perform private.expect_staff('products');
  -- Of one edit, the trigger records the price before the stock.
  return query
    with changes as (
      (
        select 'stock' as kind, s.id, s.from_units, s.to_units, s.cause, s.order_id, s.changed_by_email, s.changed_at
        from public.stock_changes as s
        where s.product_id = product_history.product_id and s.id < coalesce(before_stock_change, 9223372036854775807)
        order by s.id desc limit most
      )
      union all
      (
        select 'price', c.id, c.from_cents, c.to_cents, 'edited', null, c.changed_by_email, c.changed_at
        from public.price_changes as c
        where c.product_id = product_history.product_id and c.id < coalesce(before_price_change, 9223372036854775807)
        order by c.id desc limit most
      )
    )
    select c.kind, c.id, c.from_units, c.to_units, c.cause, c.order_id, o.order_number, c.changed_by_email, c.changed_at
    from (select * from changes order by changes.changed_at desc, changes.kind desc, changes.id desc limit most) as c
    left join lateral (select own.order_number from public.orders as own where own.id = c.order_id offset 0) as o on true
    order by c.changed_at desc, c.kind desc, c.id desc;
end
$$;

comment on function public.product_history is
  'For staff: a page of the changes of a product''s stock (units) and price (cents), newest first. The next page is before the smallest id of each kind so far.';

-- Stock, brands, lists

create or replace function public.change_stock(product_id uuid, by integer) returns integer
language plpgsql security definer set search_path = '' as $$
declare
  units integer;
begin
  perform private.expect_staff('products');
  update public.products as p set stock_quantity = p.stock_quantity + change_stock.by
  where p.id = change_stock.product_id and p.stock_quantity::bigint + change_stock.by between 0 and 2147483647
  returning p.stock_quantity into units;
  if not found then
    select p.stock_quantity into units from public.products as p where p.id = change_stock.product_id;
    if not found then
      perform private.refuse(404, 'product_unavailable', 'This product is not available');
    end if;
    perform private.refuse(409, 'not_enough_stock', format('Only %s left in stock', units), units::text);
  end if;
  perform private.note_answer(to_jsonb(units));
  return units;
end
$$;

comment on function public.change_stock is
  'For staff: adds units to the stock of a product, or takes some away (by < 0), whatever was sold in the meantime. Returns the units now.';

create or replace function public.list_brands() returns setof text
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('products');
  return query select distinct c.brand from private.catalogue_counts as c where c.brand <> '' order by c.brand;
end
$$;

comment on function public.list_brands is 'For staff: the brands of active products, by name.';

create or replace function public.typical_price() returns integer
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('products');
  return (
    select percentile_disc(0.5) within group (order by p.price)
    from (select n.price from public.products as n where n.is_active order by n.created_at desc, n.id limit 200) as p
  );
end
$$;

comment on function public.typical_price is 'For staff: the median price of the newest 200 active products in cents. Null without products.';

create or replace function public.find_products(
  search text default '', category text default null,
  before_created_at timestamptz default null, before_id uuid default null, page_size integer default 50,
  sort text default '', low_on_stock boolean default false
) returns setof public.products
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  condition constant text := case when find_products.low_on_stock then 't.is_active and t.is_low_on_stock' else 'true' end
    || coalesce(' and t.category = ' || quote_literal(find_products.category), '');
  sorted_by constant text := case ltrim(find_products.sort, '-')
    when 'name' then 'lower(t.name)' when 'price' then 't.price' when 'stock' then 't.stock_quantity'
  end;
  direction constant text := case when find_products.sort like '-%' then 'desc' else 'asc' end;
  found_ids uuid[];
begin
  perform private.expect_staff('products');
  if sorted_by is null then
    found_ids := private.find_by_text(
      'products', 'lower(t.name)', condition,
      find_products.search, find_products.before_created_at, find_products.before_id, find_products.page_size
    );
    return query
      select p.* from public.products as p where p.id = any (found_ids) order by p.created_at desc, p.id desc;
    return;
  end if;
  -- Reads the whole catalogue: an index by stock would be updated by every order.
  return query execute format(
    'select t.* from public.products as t
     where %1$s and (trim(coalesce($1, '''')) = '''' or position(lower(trim($1)) in lower(t.name)) > 0)
       and ($2 is null or (%2$s, t.id) %4$s (select %2$s, t.id from public.products as t where t.id = $2))
     order by %2$s %3$s, t.id %3$s
     limit least(greatest(coalesce($3, 50), 1), 1000)',
    condition, sorted_by, direction, case direction when 'asc' then '>' else '<' end
  ) using find_products.search, find_products.before_id, find_products.page_size;
end
$$;

comment on function public.find_products is
  'For staff: a page of products, hidden ones included, whose name contains a text, ignoring case; after the one named by before_created_at and before_id. sort: name, price or stock, with - before it for descending; otherwise newest first. low_on_stock: only active ones with a low stock.';

create or replace function public.list_categories() returns table (id uuid, name text, is_active boolean, products integer)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('products');
  return query
    select c.id, c.name, c.is_active, (
      select count(*)::integer
      from (select from public.products as p where p.category = c.name limit 101) as bounded
    )
    from public.categories as c
    order by c.name;
end
$$;

comment on function public.list_categories is
  'For staff: every category by name, hidden ones included, with the number of its products; 101 means more than 100.';

-- Execution rights
grant execute on function public.find_products, public.list_categories, public.list_brands, public.product_history, public.change_stock,
  public.typical_price to authenticated, service_role;

create policy "staff read and edit the synonyms" on public.search_synonyms
  for all to authenticated using ((select public.may('products'))) with check ((select public.may('products')));

create policy "staff read every order, the counter recent ones" on public.orders
  for select to authenticated using ((select public.may('orders')) or ((select public.may('deliveries')) and public.is_recent_order(id)));

create policy "staff edit every order" on public.orders
  for update to authenticated using ((select public.may('orders'))) with check ((select public.may('orders')));

create policy "staff read every item, the counter those of recent orders" on public.order_items
  for select to authenticated using ((select public.may('orders')) or ((select public.may('deliveries')) and public.is_recent_order(order_id)));

create policy "staff read the discount codes" on public.discount_codes for select to authenticated using ((select public.may('orders')));

create policy "owners add discount codes" on public.discount_codes for insert to authenticated with check ((select public.may('settings')));

create policy "owners edit the discount codes" on public.discount_codes
  for update to authenticated using ((select public.may('settings'))) with check ((select public.may('settings')));

create policy "owners delete discount codes" on public.discount_codes for delete to authenticated using ((select public.may('settings')));

create or replace function public.check_discount_code(code text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  networks text[] := case when public.may('orders') then '{}' else private.caller_networks() end;
  discount public.discount_codes;
begin
  if cardinality(networks) > 0 then
    -- Guesses are serialised, so that each is counted before the next is compared. The widest network contains the others.
    perform pg_advisory_xact_lock(hashtext('discount_codes ' || networks[cardinality(networks)]));
    if not private.is_within_limit('discount_codes') then
      return private.refusal_answer('PT429', format(
        'Too many wrong discount codes from your network. Please try again in %s, or order without one', private.time_left('discount_codes')
      ), 'too_many_discount_codes', '');
    end if;
  end if;
  select * into discount from public.discount_codes as d where d.code = private.read_discount_code(check_discount_code.code);
  if not private.is_discount_open(discount) or not private.has_uses_left(discount) then
    perform private.count_call_from(networks, 'discount_codes');
    return private.refusal_answer('PT409', 'This discount code is not valid, or it has ended', 'discount_invalid', '');
  end if;
  return private.discount_terms(discount);
end
$$;

comment on function public.check_discount_code is
  'The discount of a code that can be used now, so that the order form can show it: code, percent or amount_cents, minimum_cents. place_order decides. Wrong codes are counted (discount_codes in private.limits), those of staff are not.';

create or replace function public.list_discount_codes() returns table (
  id uuid, code text, percent smallint, amount_cents integer, minimum_cents integer, starts_at timestamptz, ends_at timestamptz,
  max_uses integer, max_uses_per_phone integer, is_active boolean, created_at timestamptz, updated_at timestamptz,
  uses bigint, waiting bigint, cost_cents bigint, sold_cents bigint, has_orders boolean
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('settings');
  return query
  select d.id, d.code, d.percent, d.amount_cents, d.minimum_cents, d.starts_at, d.ends_at,
    d.max_uses, d.max_uses_per_phone, d.is_active, d.created_at, d.updated_at,
    used.uses, used.waiting, used.cost_cents, used.sold_cents, used.has_orders
  from (select * from public.discount_codes as d order by d.created_at desc, d.id limit 500) as d
  cross join lateral (
    select count(*) filter (where private.counts_as_use(o.status, o.payment_status)) as uses,
      count(*) filter (where o.payment_status = 'unpaid' and o.status <> 'cancelled') as waiting,
      coalesce(sum(o.discount_cents) filter (where o.payment_status = 'paid'), 0)::bigint as cost_cents,
      coalesce(sum(o.total_amount) filter (where o.payment_status = 'paid'), 0)::bigint as sold_cents,
      count(*) > 0 as has_orders
    from public.orders as o where o.discount_code = d.code
  ) as used
  order by d.created_at desc, d.id;
end
$$;

comment on function public.list_discount_codes is
  'For staff: the 500 newest discount codes. uses: orders with the code, cancelled unpaid ones not counted; waiting: those of them that wait for their payment. cost_cents and sold_cents: the discounts and the totals of paid orders. has_orders: it was used at least once, so it can be neither changed nor deleted.';

-- Execution rights
grant execute on function public.check_discount_code to anon, authenticated, service_role;

grant execute on function public.list_discount_codes to authenticated;

create or replace function public.place_order(
  idempotency_key uuid,
  product_id uuid default null,
  quantity integer default null,
  customer_name text default null,
  customer_email text default null,
  customer_phone text default null,
  delivery_location text default null,
  expected_total integer default null,
  building text default null,
  unit text default null,
  delivery_notes text default null,
  accepts_terms boolean default null,
  items jsonb default null,
  source text default 'storefront',
  is_collected boolean default false,
  discount_code text default null
) returns jsonb
language plpgsql security definer
set search_path = ''
-- A cached plan made for few orders must not scan many.
-- The functions it calls inherit this: one with an array as parameter would be planned again at each call.
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  callers text[] := private.caller_networks();
  -- Staff and the shop itself: their orders are not limited, may be of any source, and need neither an email address nor a tick.
  is_by_shop boolean := coalesce(auth.role(), '') = 'service_role' or public.may('orders');
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := case when is_by_shop then true else private.count_call_from(callers, 'place_order') end;
  customer private.order_details;
  fingerprint text;
  earlier private.order_keys;
  settings public.store_settings;
  lines private.order_line[];
  offer private.offered_line[];
  total integer;
  code text := case when place_order.discount_code is not null then private.read_discount_code(place_order.discount_code) end;
  discount public.discount_codes;
  discount_cents integer := 0;
  refusal jsonb;
  new_order public.orders;
  number text;
  new_id uuid := gen_random_uuid();
  access_key text;
  networks text[] := case when is_by_shop then '{}' else callers end;
  holds_units boolean;
  held_until timestamptz;
  expires_at timestamptz;
  expiry_limit timestamptz;
  refusal_details text;
  refusal_hint text;
begin
  -- A repeated call returns its order even over the limit: its client may have lost the first response. Customers who paid before are
  -- served even while a stranger uses up the limit of their common network.
  if not is_within_limit
    and not exists (select from private.order_keys as k where k.idempotency_key = place_order.idempotency_key)
    and not private.has_paid(private.normalised_phone(left(place_order.customer_phone, 40)))
  then
    perform private.refuse(429, 'too_many_orders', format(
      'Too many orders from your network. Please try again in %s, or call or WhatsApp us on %s', private.time_left('place_order'), private.contact_numbers()
    ));
  elsif place_order.idempotency_key is null then
    perform private.refuse(400, 'idempotency_key_missing', 'The order has no idempotency key');
  elsif not is_by_shop and (place_order.source, place_order.is_collected) is distinct from ('storefront', false) then
    perform private.refuse(403, 'staff_only', 'Only staff may do this');
  elsif place_order.is_collected is null or place_order.source is null
    or place_order.source not in ('storefront', 'call', 'whatsapp', 'walk_in')
  then
    perform private.refuse(400, 'source_unknown', 'An order comes from the storefront, a call, a chat on WhatsApp or a customer in the shop');
  end if;

  customer := private.read_order_details(
    place_order.customer_name, place_order.customer_email, place_order.customer_phone,
    case
      when place_order.is_collected and coalesce(private.visible_length(left(place_order.delivery_location, 1000)), 0) = 0
        then 'Collected at the shop'
      else place_order.delivery_location
    end,
    place_order.building, place_order.unit, place_order.delivery_notes, is_email_optional => is_by_shop
  );
  lines := private.read_order_lines(place_order.product_id, place_order.quantity, place_order.items);
  fingerprint := encode(sha256(convert_to(
    jsonb_build_array(place_order.product_id, coalesce(to_jsonb(place_order.quantity), place_order.items), customer.name, customer.email,
      customer.phone, customer.address, customer.notes, place_order.expected_total)::text
      || case when place_order.source <> 'storefront' or place_order.is_collected
        then concat_ws(' ', place_order.source, place_order.is_collected) else '' end
      || coalesce(' ' || code, ''),
    'UTF8'
  )), 'hex');

  -- The first request with a key places the order; concurrent ones with the same key wait here.
  insert into private.order_keys as k (idempotency_key, request_hash, order_id)
  values (place_order.idempotency_key, fingerprint, new_id)
  on conflict do nothing
  returning k.access_key into access_key;
  if not found then
    select * into strict earlier from private.order_keys as k where k.idempotency_key = place_order.idempotency_key;
    if earlier.request_hash <> fingerprint then
      perform private.refuse(409, 'idempotency_key_reused', 'This idempotency key belongs to another order');
    end if;
    select * into new_order from public.orders as o where o.id = earlier.order_id;
    return private.placed_order(new_order, earlier.access_key);
  end if;

  select * into strict settings from public.store_settings;
  perform private.refuse_while_paused(settings);
  if settings.requires_terms_tick and place_order.accepts_terms is not true and not is_by_shop then
    perform private.refuse(400, 'terms_not_accepted', 'Please confirm that you are 18 or older and accept our terms and privacy notice');
  elsif not is_by_shop then
    perform private.refuse_blocked_phone(customer.phone);
  end if;
  perform private.refuse_too_many_unpaid_orders(networks, customer.phone, settings);

  if place_order.is_collected then
    settings.delivery_fee := 0;
  end if;
  offer := private.offer_of(lines);
  if code is not null then
    if not is_by_shop and not private.is_within_limit('discount_codes') then
      perform private.refuse(429, 'too_many_discount_codes', format(
        'Too many wrong discount codes from your network. Please try again in %s, or order without one', private.time_left('discount_codes')
      ));
    end if;
    discount := private.find_discount(code, customer.phone);
  end if;
  total := private.total_of_offer(offer, settings, place_order.expected_total, discount);
  if code is not null then
    discount_cents := private.price_of(offer) + settings.delivery_fee - total;
  end if;
  holds_units := private.may_hold_from_placing(networks, offer, settings);
  held_until := now() + make_interval(mins => settings.reservation_minutes);
  expires_at := held_until;
  expiry_limit := now() + private.longest_reservation(make_interval(mins => settings.reservation_minutes));
  -- These customers get the link from staff, and pay when they read it.
  if place_order.source in ('call', 'whatsapp') then
    held_until := expiry_limit;
    expires_at := greatest(held_until, now() + private.pay_link_time());
    expiry_limit := private.limit_of_pay_link(expires_at);
  end if;
  for attempt in 1 .. 10 loop
    number := coalesce(number, private.draw_tracking_number());
    insert into public.orders (
      id, tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_notes,
      delivery_fee, total_amount, reserved_until, expires_at, expiry_limit, terms_accepted_at, accepted_terms,
      source, is_collected, discount_cents, discount_code
    ) values (
      new_id, number, customer.name, customer.email, customer.phone, customer.address, customer.notes,
      settings.delivery_fee, total, case when holds_units then held_until end, expires_at, expiry_limit,
      case when place_order.accepts_terms then now() end,
      case when place_order.accepts_terms then (
        select coalesce(jsonb_object_agg(t.slug, t.updated_at), '{}') || jsonb_build_object('is_ticked', settings.requires_terms_tick)
        from public.shop_texts as t
        where t.slug in ('terms', 'privacy')
      ) end,
      place_order.source, place_order.is_collected, discount_cents, discount.code
    )
    on conflict (tracking_number) do nothing
    returning * into new_order;
    if not found then
      number := null;
      continue;
    end if;
    -- Orders of one product wait for each other from here to their end, so that the costly part comes before. Another order may have
    -- changed what is left. Products are locked by id, so that two orders of the same products cannot deadlock.
    perform from public.products as p
    where p.id = any (array(select line.product_id from unnest(lines) as line)) order by p.id for no key update;
    offer := private.offer_of(lines);
    if code is not null then
      -- Last of the locks.
      discount := private.find_discount(code, customer.phone, new_order.id);
    end if;
    total := private.total_of_offer(offer, settings, place_order.expected_total, discount);
    exit when not holds_units;
    holds_units := private.may_hold_from_placing(networks, offer, settings);
    exit when holds_units;
    -- Placed again without a hold, under another id: the key would be deleted with its order. It keeps its number: a
    -- new one could wait for an order that waits for this product.
    new_id := gen_random_uuid();
    update private.order_keys as k set order_id = new_id where k.idempotency_key = place_order.idempotency_key;
    delete from public.orders as o where o.id = new_order.id;
    new_order := null;
  end loop;
  if new_order.id is null then
    perform private.refuse(503, 'no_tracking_number', 'No tracking number could be drawn. Please try again');
  end if;

  perform private.add_order_items(new_order.id, offer);
  if code is not null and discount_cents <> private.price_of(offer) + settings.delivery_fee - total then
    -- A price and the code have changed by the same amount since the order was inserted.
    update public.orders as o set discount_cents = private.price_of(offer) + settings.delivery_fee - total
    where o.id = new_order.id
    returning * into new_order;
  end if;
  if cardinality(networks) > 0 then
    insert into private.order_networks (order_id, network, phone)
    select new_order.id, caller.network, customer.phone
    from unnest(networks) as caller (network);
  end if;
  if holds_units then
    perform private.hold_units(new_order.id, networks, held_until, false);
  end if;
  return private.placed_order(new_order, access_key);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  if refusal_details in ('discount_invalid', 'discount_used') and not is_by_shop then
    perform private.count_call_from(callers, 'discount_codes');
  end if;
  refusal := private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
  return case when offer is null then refusal else private.with_quote(refusal, offer, settings, discount) end;
end
$$;

comment on function public.place_order is
  'Places an order of up to ten drinks in one transaction: of product_id and quantity, or of items (private.read_order_lines). Prices and fee come from the database; the order gets a new tracking number, and holds its units (reserved_until) unless unpaid orders hold too many. The same key again returns the same order. A refusal includes the current amounts (private.with_quote). discount_code: the order uses it, and expected_total is what remains to pay after its discount. Staff also say where it came from (source) and whether it is collected; their orders need no email address and no terms.';

-- Execution rights
grant execute on function public.place_order, public.change_order_items to anon, authenticated, service_role;

create policy "staff read every payment, the counter those of recent orders" on public.payments
  for select to authenticated using ((select public.may('orders')) or ((select public.may('deliveries')) and public.is_recent_order(order_id)));

create policy "staff read every transaction" on public.mpesa_transactions
  for select to authenticated using ((select public.may('orders')));

create policy "staff read every refund" on public.refunds for select to authenticated using ((select public.may('orders')));

create index refunds_newest_first on public.refunds (created_at desc);

create index refunds_by_approval on public.refunds (approved_at desc) where approved_at is not null;

create or replace function private.check_refund_right(cents bigint, payment_id uuid) returns void
language plpgsql stable set search_path = '' as $$
begin
  if cents + (select c.returned_cents from private.change_of(check_refund_right.payment_id) as c) > private.refund_limit() and (select auth.uid()) is not null and not public.may('approvals') then
    perform private.refuse(403, 'above_refund_limit', format(
      'Only an owner may note money that went back above KES %s', to_char(private.refund_limit() / 100, 'FM999,999,999')
    ));
  end if;
end
$$;

comment on function private.check_refund_right is
  'Refuses staff who may not approve refunds to give back more than the limit by hand or in cash, which no one approves. cents: with what went back in part already.';

create or replace function private.open_refund(
  payment_id uuid, transaction_receipt text, receipt text, refund_cents integer, reason text, member uuid,
  sent_by_hand text default null
) returns public.refunds
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  opened public.refunds;
  needs_approval boolean := sent_by_hand is null and refund_cents > private.refund_limit();
begin
  reason := private.read_reason(reason, is_required => true);
  if sent_by_hand is not null then
    perform private.check_refund_right(refund_cents, payment_id);
  end if;
  insert into public.refunds (
    payment_id, transaction_receipt, receipt, refund_cents, reason, method, status, needs_approval, requested_by, requested_by_email,
    refund_receipt, completed_at
  ) values (
    payment_id, transaction_receipt, receipt, refund_cents, reason,
    case when sent_by_hand is null then 'reversal' else 'by_hand' end,
    case when sent_by_hand is not null then 'completed' when needs_approval then 'requested' else 'approved' end, needs_approval,
    member, private.email_of(member),
    case when sent_by_hand is not null then private.check_refund_receipt(sent_by_hand) end,
    case when sent_by_hand is not null then now() end
  )
  returning * into opened;
  if opened.status = 'requested' then
    perform private.queue_staff_message('refund_to_approve', opened.id::text, except_member => member);
    perform private.add_notice('refund_to_approve', opened.id::text, caused_by => member);
  end if;
  return opened;
end
$$;

comment on function private.open_refund is
  'Requests a refund by M-PESA, or records a refund by hand when sent_by_hand (its receipt) is given.';

create or replace function public.request_refund(
  reason text, payment_id uuid default null, receipt text default null, is_sure boolean default false
) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('refunds');
  paid public.payments;
  reported public.mpesa_transactions;
begin
  if request_refund.payment_id is null then
    reported := private.lock_refundable_transaction(request_refund.receipt, request_refund.is_sure);
    return private.open_refund(
      null, reported.receipt, reported.receipt, reported.received_cents, request_refund.reason, member
    );
  end if;
  paid := private.lock_refundable_payment(request_refund.payment_id);
  if paid.method = 'credit' then
    return private.return_to_credit(paid, private.read_reason(request_refund.reason, is_required => true), member);
  elsif paid.method = 'cash' then
    perform private.refuse(409, 'cash_goes_back_in_cash', 'This was paid in cash, which M-PESA cannot send back. Give it back, and note it');
  elsif paid.receipt is null then
    perform private.refuse(409, 'receipt_unknown',
      'M-PESA has not reported the receipt of this payment yet. Without it the money can only be sent back by hand');
  end if;
  if private.left_to_refund(paid) < paid.charge_cents then
    perform private.refuse(409, 'partly_returned',
      'Part of this money went back outside the shop, or paid another order as credit, and M-PESA reverses whole payments only. Send the rest back by hand and note it');
  end if;
  -- Staff may have typed the amount: at most the amount that M-PESA reported for the receipt is refunded.
  select * into reported from public.mpesa_transactions as t where t.receipt = paid.receipt;
  if reported.received_cents < paid.charge_cents then
    perform private.refuse(409, 'amount_differs',
      'M-PESA reported less money under this receipt than was entered. Please look at it in Reconciliation');
  end if;
  return private.open_refund(paid.id, null, paid.receipt, paid.charge_cents, request_refund.reason, member);
end
$$;

comment on function public.request_refund is
  'Requests the full refund by M-PESA of a payment, or of unassigned money by its receipt. Above the refund limit it waits for a second staff member. Money that may be an order''s, whose prompt lacks a receipt, is refunded only when is_sure. What was paid from credit is credit again at once.';

create or replace function public.approve_refund(refund_id uuid) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('approvals');
  approved public.refunds := private.lock_refund(approve_refund.refund_id);
begin
  if approved.status <> 'requested' then
    perform private.refuse(409, 'refund_changed', 'This refund was changed in the meantime. Please look at it again');
  elsif approved.requested_by = member then
    if exists (select from private.active_owners() as owner where owner.user_id <> member) then
      perform private.refuse(403, 'second_member_needed', 'You requested this refund, so a colleague must approve it');
    elsif (select auth.jwt() ->> 'aal') is distinct from 'aal2' then
      perform private.refuse(403, 'second_factor_needed',
        'You are the only owner. Add an authenticator app under Account, sign in with it, and approve this refund then');
    elsif approved.created_at > now() - interval '10 minutes' then
      perform private.refuse(409, 'approval_too_early', format(
        'You are the only owner, so take ten minutes to think it over. You can approve it from %s on',
        to_char((approved.created_at + interval '10 minutes') at time zone 'Africa/Nairobi', 'HH24:MI')
      ));
    end if;
  end if;
  update public.refunds as r
  set status = 'approved', approved_by = member, approved_by_email = private.email_of(member), approved_at = now(),
      approved_alone = approved.requested_by = member, updated_at = now()
  where r.id = approved.id
  returning * into approved;
  return approved;
end
$$;

comment on function public.approve_refund is 'Approves, as a second owner, a refund above the limit. The only owner approves an own one after a second factor and ten minutes.';

create or replace function public.withdraw_refund(refund_id uuid) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('refunds');
  withdrawn public.refunds := private.lock_refund(withdraw_refund.refund_id);
begin
  if withdrawn.status = 'withdrawn' then
    return withdrawn;
  end if;
  if not private.is_unsent_refund(withdrawn.status) then
    perform private.refuse(409, 'refund_changed', 'This refund was changed in the meantime. Please look at it again');
  end if;
  update public.refunds as r set status = 'withdrawn', updated_at = now() where r.id = withdrawn.id returning * into withdrawn;
  return withdrawn;
end
$$;

comment on function public.withdraw_refund is 'Withdraws a refund that was not sent to M-PESA yet.';

-- Execution rights
grant execute on function public.request_refund, public.approve_refund, public.withdraw_refund to authenticated;

create or replace function public.note_refund_by_hand(
  refund_receipt text, reason text, payment_id uuid default null, receipt text default null, is_sure boolean default false
) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('refunds');
  paid public.payments;
  reported public.mpesa_transactions;
  noted public.refunds;
begin
  select r.* into noted from public.refunds as r
  where r.method = 'by_hand' and r.refund_receipt = private.normalised_receipt(note_refund_by_hand.refund_receipt)
    and case when note_refund_by_hand.payment_id is null
      then r.transaction_receipt = private.normalised_receipt(note_refund_by_hand.receipt) else r.payment_id = note_refund_by_hand.payment_id end;
  if found then
    return noted;
  elsif note_refund_by_hand.payment_id is null then
    reported := private.lock_refundable_transaction(note_refund_by_hand.receipt, note_refund_by_hand.is_sure);
    return private.open_refund(
      null, reported.receipt, reported.receipt, reported.received_cents, note_refund_by_hand.reason, member,
      coalesce(note_refund_by_hand.refund_receipt, '')
    );
  end if;
  paid := private.lock_refundable_payment(note_refund_by_hand.payment_id);
  if paid.method = 'credit' then
    perform private.refuse(409, 'credit_goes_back_as_credit', 'This was paid from credit. Make it credit again, and give that back');
  end if;
  noted := private.open_refund(
    paid.id, null, paid.receipt, private.left_to_refund(paid),
    note_refund_by_hand.reason, member,
    coalesce(note_refund_by_hand.refund_receipt, '')
  );
  return private.complete_refund(noted.id, noted.refund_receipt);
end
$$;

comment on function public.note_refund_by_hand is
  'Records that a payment, or unassigned money by its receipt, was refunded outside the shop, with M-PESA''s receipt of the refund. Idempotent by that receipt. is_sure: as in request_refund.';

create or replace function public.close_unknown_refund(refund_id uuid, refund_receipt text default null) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('refunds');
  closed public.refunds := private.lock_refund(close_unknown_refund.refund_id);
begin
  if closed.status <> 'unknown' then
    perform private.refuse(409, 'refund_changed', 'This refund was changed in the meantime. Please look at it again');
  elsif close_unknown_refund.refund_receipt is not null then
    return private.complete_refund(closed.id, private.check_refund_receipt(close_unknown_refund.refund_receipt));
  end if;
  if closed.sent_at > now() - interval '30 minutes' then
    perform private.refuse(409, 'refund_too_fresh', 'M-PESA may still be working on it. Please wait until half an hour has passed');
  end if;
  update public.refunds as r
  set status = 'failed', next_check_at = null, updated_at = now(),
      result_description = 'A member of staff found that nothing was sent'
  where r.id = closed.id
  returning * into closed;
  return closed;
end
$$;

comment on function public.close_unknown_refund is
  'Resolves a refund with unknown result: with its receipt, or, half an hour after it was sent, as not sent.';

create or replace function public.acknowledge_sent_twice(refund_id uuid, note text) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('refunds');
  seen public.refunds := private.lock_refund(acknowledge_sent_twice.refund_id);
begin
  if seen.sent_twice_at is null or seen.sent_twice_seen_at is not null then
    perform private.refuse(409, 'refund_changed', 'This refund was changed in the meantime. Please look at it again');
  end if;
  update public.refunds as r
  set sent_twice_seen_at = now(), sent_twice_seen_by = member, sent_twice_seen_by_email = private.email_of(member),
      sent_twice_note = private.read_reason(acknowledge_sent_twice.note, is_required => true), updated_at = now()
  where r.id = seen.id
  returning * into seen;
  if seen.payment_id is not null then
    perform private.record_order_event(
      (select p.order_id from public.payments as p where p.id = seen.payment_id), 'refund_sent_twice_seen', 'staff',
      jsonb_build_object('refund_id', seen.id, 'refund_cents', seen.refund_cents, 'reason', seen.sent_twice_note)
    );
  end if;
  return seen;
end
$$;

comment on function public.acknowledge_sent_twice is 'Records how staff resolved money that was refunded twice.';

-- Execution rights
grant execute on function public.note_refund_by_hand, public.close_unknown_refund, public.acknowledge_sent_twice
  to authenticated;

create or replace function public.resume_prompts() returns void
language plpgsql security definer set search_path = '' as $$
begin
  perform private.expect_staff('settings');
  perform private.end_prompt_pause();
end
$$;

comment on function public.resume_prompts is 'For staff who corrected the settings: ends the pause of prompts.';

create or replace function public.payment_health() returns public.payment_health
language plpgsql stable security definer set search_path = '' as $$
declare
  health public.payment_health;
begin
  perform private.expect_staff('panel');
  health.checked_at := clock_timestamp();
  health.pause := (
    select (p.code, p.description, p.since, p.until, p.is_refused)::public.active_pause from private.prompt_pause as p
  );
  -- Each count reads its own partial index.
  health.refunds_to_approve := (select count(*) from public.refunds as r where r.status = 'requested');
  health.refunds_to_approve_by_me := (
    select count(*) from public.refunds as r
    where r.status = 'requested' and r.requested_by is distinct from (select auth.uid()) and (select public.may('approvals'))
  );
  health.refunds_unknown := (select count(*) from public.refunds as r where r.status = 'unknown');
  health.refunds_stuck := (
    select count(*) from public.refunds as r
    where r.status in ('approved', 'sending') and r.created_at < now() - interval '10 minutes'
  );
  health.refunds_sent_twice := (
    select count(*) from public.refunds as r where r.sent_twice_at is not null and r.sent_twice_seen_at is null
  );
  health.limit_raise := (
    select (r.raised_by_email, r.raised_at, r.raised_from, r.raised_to, r.raised_at + interval '1 day', private.refund_limit())
      ::public.refund_limit_raise
    from private.refund_limit_raises as r where r.raised_at > now() - interval '7 days'
    order by r.raised_at desc, r.id desc limit 1
  );
  health.token_fresh_until := (select max(t.fresh_until) from private.daraja_tokens as t where t.token is not null);
  health.last_push := (
    select (m.received_at, m.outcome, m.source_address)::public.received_message
    from public.payment_messages as m where m.source = 'push' order by m.id desc limit 1
  );
  health.last_callback := (
    select (m.received_at, m.outcome, m.source_address)::public.received_message
    from public.payment_messages as m where m.source in ('callback', 'confirmation', 'reversal_result') order by m.id desc limit 1
  );
  return health;
end
$$;

comment on function public.payment_health is
  'For staff: a pause of prompts and its cause, refunds that wait for staff, the last prompt and the last callback.';

grant execute on function public.resume_prompts, public.payment_health to authenticated;

create policy "staff read every payment message" on public.payment_messages
  for select to authenticated using ((select public.may('reconciliation')));

create or replace function public.confirm_till_payment(
  order_id uuid, receipt text, received_cents integer, only_if_unpaid boolean default false,
  although_not_reported boolean default false
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  code text;
  member uuid := (select auth.uid());
  confirmed_order public.orders;
  known public.payments;
  received integer := confirm_till_payment.received_cents;
  settled public.settled_payment;
begin
  perform private.expect_staff('orders');
  code := private.read_receipt(confirm_till_payment.receipt);
  if private.is_whole_shillings(received) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  select * into confirmed_order from public.orders as o where o.id = confirm_till_payment.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  select * into known from public.payments as p where p.receipt = code;
  if known.order_id = confirmed_order.id then
    update public.payments as p set confirmed_by = coalesce(p.confirmed_by, member) where p.id = known.id returning * into known;
    return ('already_completed', known)::public.settled_payment;
  end if;
  if confirm_till_payment.only_if_unpaid and exists (
    select from public.payments as p where p.order_id = confirmed_order.id and p.status = 'completed' and p.receipt is not null
  ) then
    perform private.refuse(409, 'paid_meanwhile', 'This order has just been paid with another receipt');
  end if;
  perform private.check_receipt_is_free(code, known.id is null);
  if known.id is null and not coalesce(confirm_till_payment.although_not_reported, false)
    and private.should_be_reported(confirmed_order.id)
    and not exists (
      select from public.mpesa_transactions as t
      where t.receipt = code and (t.reported_by_confirmation_at is not null or t.reported_by_statement_at is not null)
    )
  then
    perform private.refuse(409, 'receipt_not_reported',
      'M-PESA has not reported this receipt yet. Check it in the till''s own messages before you confirm it');
  end if;
  received := private.reported_amount(code, received);
  known := private.add_till_payment(confirmed_order.id, received, member);
  settled := public.settle_payment(
    payment_id => known.id,
    source => 'till',
    body => jsonb_build_object(
      'receipt', code, 'received_cents', confirm_till_payment.received_cents, 'confirmed_by', member,
      'email', private.email_of(member)
    )::text,
    result => 'succeeded',
    received_cents => received,
    receipt => code
  );
  perform private.postpone_messages(confirmed_order.id);
  if settled.outcome = 'receipt_replayed' then
    perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
  end if;
  return settled;
end
$$;

comment on function public.confirm_till_payment is
  'For staff: confirms a manual payment by its M-PESA receipt and amount in cents. Idempotent by receipt. Settled like every payment: another amount than the charge needs review, a second payment is marked for refund, or refused with only_if_unpaid. although_not_reported: consent to a receipt that M-PESA should have reported and has not (receipt_not_reported otherwise).';

create or replace function public.correct_till_payment(
  payment_id uuid, seen_receipt text, seen_cents integer, receipt text, received_cents integer
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  code text;
  member uuid := (select auth.uid());
  paid_order public.orders;
  known public.payments;
  received integer := correct_till_payment.received_cents;
begin
  perform private.expect_staff('orders');
  code := private.read_receipt(correct_till_payment.receipt);
  if private.is_whole_shillings(received) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = correct_till_payment.payment_id)
  for no key update;
  perform pg_advisory_xact_lock(hashtext('settle ' || known_receipt))
  from (select distinct unnest(array[code, correct_till_payment.seen_receipt]) as known_receipt order by 1) as locked;
  select * into known from public.payments as p where p.id = correct_till_payment.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif (known.receipt, known.charge_cents) is distinct from (correct_till_payment.seen_receipt, correct_till_payment.seen_cents) then
    perform private.refuse(409, 'payment_changed', 'This payment was changed in the meantime. Nothing was saved');
  elsif exists (select from public.mpesa_transactions as t where t.receipt = known.receipt) then
    perform private.refuse(409, 'payment_confirmed', 'M-PESA has confirmed this payment. It cannot be corrected any more');
  end if;
  if exists (select from public.change_notes as c where c.payment_id = known.id) then
    perform private.refuse(409, 'change_noted', 'Change of this money is noted already. It stays with its order');
  elsif known.method <> 'till' or known.confirmed_by is null or known.status <> 'completed' or known.needs_refund
    or private.is_being_refunded(known.id)
    or exists (
      select from public.payments as p where p.order_id = paid_order.id and p.id <> known.id and p.status = 'completed'
    )
    or not (
      paid_order.payment_status = 'needs_review'
      -- An order that was handed over keeps its status.
      or (paid_order.payment_status = 'paid' and (private.is_in_shop(paid_order.status) or received = known.charge_cents))
    )
  then
    perform private.refuse(409, 'payment_final', 'This payment cannot be corrected any more. Please look at it in Reconciliation');
  elsif code <> known.receipt then
    if exists (select from public.payments as p where p.receipt = code and p.purpose = 'order') then
      perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
    end if;
    perform private.check_receipt_is_free(code, true);
    received := private.reported_amount(code, received);
  end if;
  if (code, received) = (known.receipt, known.charge_cents) then
    return ('unchanged', known)::public.settled_payment;
  end if;

  update public.payments as p set receipt = code, charge_cents = received, confirmed_by = coalesce(member, p.confirmed_by), updated_at = now()
  where p.id = known.id;
  -- Messages move with their receipt; their bodies stay as received.
  update public.payment_messages as m set receipt = code where m.payment_id = known.id and m.receipt = known.receipt;
  insert into public.payment_messages (payment_id, source, body, receipt, outcome)
  values (
    known.id, 'till',
    jsonb_build_object(
      'receipt', code, 'received_cents', correct_till_payment.received_cents, 'instead_of', jsonb_build_object('receipt', known.receipt, 'received_cents', known.charge_cents),
      'confirmed_by', member, 'email', private.email_of(member)
    )::text,
    code, 'corrected'
  );
  perform private.record_order_event(paid_order.id, 'payment_corrected', 'staff', jsonb_build_object(
    'payment_id', known.id, 'charge_cents', received, 'receipt', code, 'charge_cents_before', known.charge_cents, 'receipt_before', known.receipt
  ));
  if paid_order.payment_status = 'needs_review' and received = paid_order.charge_cents
    and known.charge_cents <> paid_order.charge_cents then
    perform private.mark_order_paid(paid_order.id);
  elsif paid_order.payment_status = 'paid' and received not in (known.charge_cents, paid_order.charge_cents) then
    perform private.put_order_under_review(paid_order.id);
  end if;
  perform private.postpone_messages(paid_order.id);
  perform private.withdraw_messages(paid_order.id);
  perform private.match_receipts(paid_order.id);
  select o.* into paid_order from public.orders as o where o.id = paid_order.id;
  select * into known from public.payments as p where p.id = known.id;
  return (paid_order.payment_status, known)::public.settled_payment;
end
$$;

comment on function public.correct_till_payment is
  'For staff: corrects receipt and amount (in cents) of a manual payment that M-PESA has not confirmed and that is the only money of its order. Refuses if they changed since they were read. The order is paid when the amount is its charge, otherwise it needs review.';

create policy "staff read every pull" on public.statement_pulls for select to authenticated using ((select public.may('reconciliation')));

create or replace function public.statement_status() returns public.statement_status
language plpgsql stable security definer set search_path = '' as $$
declare
  status public.statement_status;
begin
  perform private.expect_staff('panel');
  status.checked_at := clock_timestamp();
  select max(r.registered_at) filter (where r.kind = 'till'), max(r.registered_at) filter (where r.kind = 'statement')
  into status.till_registered_at, status.statement_registered_at
  from private.mpesa_registrations as r;
  select max(t.reported_by_confirmation_at) into status.last_confirmation_at
  from public.mpesa_transactions as t where t.transacted_at > now() - interval '30 days';
  -- Windows end with the start of their pull, and one pull runs at a time: the last window is of the last pull.
  select s.finished_at, s.window_to into status.last_complete_at, status.covered_until
  from public.statement_pulls as s where s.outcome = 'complete' order by s.window_to desc limit 1;
  select s.problem into status.problem
  from public.statement_pulls as s where s.outcome <> 'running' order by s.id desc limit 1;
  status.missed := array(
    select (s.missed_since, s.window_from)::public.period
    from (select * from public.statement_pulls as gap where gap.missed_since is not null offset 0) as s
    where s.outcome = 'complete' and s.started_at > now() - interval '14 days'
    order by s.id desc
  );
  select count(*) into status.unsettled_messages
  from public.payment_messages as m
  where m.source in ('callback', 'confirmation') and m.outcome is null and m.received_at < now() - interval '5 minutes';
  select count(*) into status.unmatched
  from public.mpesa_transactions as t where t.payment_id is null and t.resolution is null;
  select count(*) into status.to_check from public.messages_to_check as m where m.resolution is null;
  return status;
end
$$;

comment on function public.statement_status is
  'For staff: registrations of confirmations and statement, end of its coverage, its gaps, and money and messages that wait.';

-- Execution rights
grant execute on function public.confirm_till_payment, public.correct_till_payment, public.statement_status
  to authenticated, service_role;

create policy "staff read every message to check" on public.messages_to_check
  for select to authenticated using ((select public.may('reconciliation')));

create or replace function public.enter_message_to_check(
  message_id bigint, receipt text, received_cents integer, transacted_at timestamptz
) returns public.settled_payment
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('reconciliation');
  waiting public.messages_to_check;
  code text;
  settled public.settled_payment;
begin
  waiting := private.waiting_message_to_check(enter_message_to_check.message_id);
  code := private.read_receipt(enter_message_to_check.receipt);
  if waiting.problem = 'reversed' or waiting.refund_id is not null then
    perform private.refuse(409, 'message_of_refund', 'This message is about money that went back. It pays no order');
  elsif coalesce(enter_message_to_check.received_cents, 0) <= 0 then
    perform private.refuse(400, 'amount_invalid', 'The amount must be more than 0');
  elsif enter_message_to_check.transacted_at is null or enter_message_to_check.transacted_at > now() + interval '1 day' then
    perform private.refuse(400, 'time_invalid', 'The time must be when M-PESA received the money');
  end if;
  settled := public.receive_mpesa_transaction(
    source => case waiting.source when 'statement' then 'statement' else 'confirmation' end,
    receipt => code, received_cents => enter_message_to_check.received_cents, reference => waiting.reference,
    transacted_at => enter_message_to_check.transacted_at,
    body => jsonb_build_object(
      'receipt', code, 'received_cents', enter_message_to_check.received_cents, 'transacted_at', enter_message_to_check.transacted_at,
      'entered_by', member, 'email', private.email_of(member), 'message_to_check', waiting.id
    )::text
  );
  perform private.finish_message_to_check(waiting.id, 'entered', null);
  return settled;
end
$$;

comment on function public.enter_message_to_check is
  'For staff: enters what a message says that could not be read (received_cents in cents). Settled like every payment that M-PESA reports (receive_mpesa_transaction), under the reference of the message.';

create or replace function public.dismiss_message_to_check(message_id bigint, note text) returns public.messages_to_check
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('reconciliation');
  waiting public.messages_to_check := private.waiting_message_to_check(dismiss_message_to_check.message_id);
  reason text := private.read_reason(dismiss_message_to_check.note, is_required => true);
begin
  -- Ends the review of an attempt that has no other evidence (private.end_reviews).
  insert into public.reconciliation_events (payment_id, order_id, kind, note, actor_id, actor_email)
  select p.id, p.order_id, 'accepted', reason, member, private.email_of(member)
  from public.payments as p
  where p.id = waiting.payment_id and p.status = 'review'
    and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id);
  return private.finish_message_to_check(waiting.id, 'not_a_payment', reason);
end
$$;

comment on function public.dismiss_message_to_check is 'For staff: notes why a message that could not be read is no payment, or how it was dealt with.';

-- Execution rights
grant execute on function public.enter_message_to_check, public.dismiss_message_to_check to authenticated, service_role;

create or replace function public.agree_cash(order_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
declare
  ordered public.orders;
begin
  perform private.expect_staff('cash');
  if not (select s.takes_cash from public.store_settings as s) then
    perform private.refuse(409, 'cash_not_taken', 'The shop takes no cash. Settings, Payments can change that');
  end if;
  ordered := private.lock_order_for_cash(agree_cash.order_id);
  if ordered.payment_method <> 'cash' then
    perform private.deliver_for_cash(ordered, 'staff');
  end if;
end
$$;

comment on function public.agree_cash is
  'For staff: the customer pays an unpaid order in cash at the door. It goes into work, has a delivery, and does not expire any more. Repeating it changes nothing.';

create or replace function public.receive_cash(
  order_id uuid, received_cents integer, received_from text default null, difference text default null, note text default null
) returns public.payments
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('cash');
  person text := private.visible_text(receive_cash.received_from);
  reason text := private.read_reason(receive_cash.note);
  ordered public.orders;
  received public.payments;
begin
  if private.is_whole_shillings(receive_cash.received_cents) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  elsif char_length(person) > 120 then
    perform private.refuse(400, 'rider_too_long', 'The name of the person is longer than 120 characters');
  elsif not (select s.takes_cash from public.store_settings as s) then
    perform private.refuse(409, 'cash_not_taken', 'The shop takes no cash. Settings, Payments can change that');
  end if;
  ordered := private.lock_order_for_cash(receive_cash.order_id);
  -- A shortfall is forgiven, with the reason, or paid from credit; a surplus is a tip, or owed to the customer.
  if receive_cash.received_cents < ordered.charge_cents
      and not coalesce(receive_cash.difference = 'from_credit' or (receive_cash.difference = 'forgiven' and reason is not null), false)
    or receive_cash.received_cents > ordered.charge_cents and coalesce(receive_cash.difference, '') not in ('tip', 'credit')
    or receive_cash.received_cents = ordered.charge_cents and receive_cash.difference is not null
  then
    perform private.refuse(409, 'cash_differs', 'This is another amount than the order costs. Say why', ordered.charge_cents::text);
  end if;
  if receive_cash.difference = 'from_credit' then
    perform private.pay_from_credit(ordered, ordered.charge_cents - receive_cash.received_cents, null, member);
  end if;
  -- An order that waits without a hold takes its units now.
  perform private.take_units_to_pay(ordered);
  insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by, received_from, note, completed_at)
  values (ordered.id, '', receive_cash.received_cents, 'completed', 'cash', member, person, reason, now())
  returning * into received;
  perform private.set_order_paid(ordered, 'cash');
  if receive_cash.difference = 'credit' then
    perform private.add_change_note(received, 'credit', receive_cash.received_cents - ordered.charge_cents, null, reason, member);
  end if;
  return received;
end
$$;

comment on function public.receive_cash is
  'For staff: cash for an unpaid order was received, from its rider (received_from) or the customer, and pays it. Another amount than the charge needs difference: forgiven (with a note), from_credit (what the shop owes to the customer pays the rest), tip, or credit (owed to the customer); its refusal has the charge as hint.';

create or replace function public.take_back_cash(payment_id uuid, reason text) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  cause text := private.read_reason(take_back_cash.reason, is_required => true);
  ordered public.orders;
  taken public.payments;
  minutes interval := private.reservation();
  member uuid := private.expect_staff_member('cash');
begin
  select o.* into ordered from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = take_back_cash.payment_id)
  for no key update;
  select * into taken from public.payments as p where p.id = take_back_cash.payment_id for update;
  if taken.id is null then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif taken.method <> 'cash' or taken.status <> 'completed' or taken.refunded_at is not null or ordered.payment_status <> 'paid'
    or ordered.status = 'cancelled' or exists (
      select from public.change_notes as c join public.payments as p on p.id = c.payment_id
      where p.order_id = ordered.id and (p.id = taken.id or (p.method = 'credit' and p.status = 'completed'))
    )
  then
    perform private.refuse(409, 'payment_final', 'This payment cannot be corrected any more. Please look at it in Reconciliation');
  end if;
  -- Credit paid the rest.
  perform private.release_credit(p, cause, member)
  from public.payments as p
  where p.order_id = ordered.id and p.method = 'credit' and p.status = 'completed' and p.refunded_at is null and not p.needs_refund;
  update public.payments as p set status = 'failed', note = cause, updated_at = now()
  where p.id = taken.id
    or (p.order_id = ordered.id and p.method = 'credit' and p.status = 'completed' and p.refunded_at is null and not p.needs_refund);
  -- The customer has paid by M-PESA, too: that money pays the order instead of going back.
  if exists (select from public.payments as p where p.order_id = ordered.id and private.can_still_pay(p)) then
    update public.orders as o set payment_method = 'mpesa', updated_at = now() where o.id = ordered.id;
    perform private.settle_order_again(ordered.id);
    return;
  end if;
  -- It has its units, as every unpaid order in work.
  update public.orders as o
  set payment_status = 'unpaid', expires_at = now() + minutes, reserved_until = now() + minutes,
      expiry_limit = now() + private.longest_reservation(minutes), extended_at = null, updated_at = now()
  where o.id = ordered.id;
end
$$;

comment on function public.take_back_cash is
  'For staff: cash was noted by mistake for an order that is not cancelled. Its order is to be paid in cash again, unless it was paid by M-PESA, too; the payment stays in the books as taken back, with the reason. Credit that paid the rest of it is taken back, too.';

create or replace function public.give_back_cash(payment_id uuid, reason text) returns public.refunds
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('refunds');
  paid public.payments := private.lock_refundable_payment(give_back_cash.payment_id);
  given public.refunds;
begin
  if paid.method = 'credit' then
    perform private.refuse(409, 'credit_goes_back_as_credit', 'This was paid from credit. Make it credit again, and give that back');
  elsif paid.method <> 'cash' then
    perform private.refuse(409, 'not_cash', 'This payment came by M-PESA. It goes back by M-PESA, or by hand with its receipt');
  end if;
  perform private.check_refund_right(private.left_to_refund(paid), paid.id);
  insert into public.refunds (payment_id, refund_cents, reason, method, status, requested_by, requested_by_email, completed_at)
  values (
    paid.id, private.left_to_refund(paid),
    private.read_reason(give_back_cash.reason, is_required => true), 'cash', 'completed', member, private.email_of(member), now()
  )
  returning * into given;
  return private.complete_refund(given.id, null);
end
$$;

comment on function public.give_back_cash is
  'For staff: the cash of a cancelled order was given back to its customer.';

grant execute on function public.agree_cash, public.receive_cash, public.take_back_cash, public.give_back_cash
  to authenticated, service_role;

create policy "staff read every decision" on public.reconciliation_events
  for select to authenticated using ((select public.may('reconciliation')));

create or replace function public.reconciliation_day(day date) returns public.reconciliation_day
language plpgsql stable security definer set search_path = '' as $$
declare
  since timestamptz := reconciliation_day.day::timestamp at time zone 'Africa/Nairobi';
  until timestamptz := (reconciliation_day.day + 1)::timestamp at time zone 'Africa/Nairobi';
begin
  perform private.expect_staff('reconciliation');
  return (
    reconciliation_day.day,
    array(select r from private.reconciliation_rows(since, until) as r order by r.is_open desc, r.happened_at desc, r.id),
    private.statement_coverage(tstzrange(since, until)) @> tstzrange(since, greatest(since, least(until, now() - interval '2 hours'))),
    array(
      select (s.missed_since, s.window_from)::public.period
      from public.statement_pulls as s
      where s.outcome = 'complete' and s.missed_since < until and s.window_from > since
      order by s.id
    )
  )::public.reconciliation_day;
end
$$;

comment on function public.reconciliation_day is
  'For staff: both books of a day in Nairobi, open differences first; whether complete statements cover the day; and gaps that no statement covers.';

create or replace function public.reconciliation_days(since date, until date) returns table (
  day date, ours bigint, theirs bigint, payments bigint, matched bigint, missing_here bigint, missing_there bigint,
  not_compared bigint, doubles bigint, wrong_amounts bigint, open bigint
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('reconciliation');
  perform private.expect_span(reconciliation_days.since, reconciliation_days.until);
  return query
  select
    d.day::date,
    coalesce(sum(r.our_cents) filter (where r.payment_status = 'completed'), 0),
    coalesce(sum(r.their_cents), 0),
    count(r.id),
    count(*) filter (where r.kind = 'matched'),
    count(*) filter (where r.kind = 'missing_here'),
    count(*) filter (where r.kind = 'missing_there'),
    count(*) filter (where r.kind in ('not_compared', 'typed')),
    count(*) filter (where r.kind = 'double'),
    count(*) filter (where r.kind = 'wrong_amount'),
    count(*) filter (where r.is_open)
  from generate_series(reconciliation_days.since::timestamp, reconciliation_days.until::timestamp, interval '1 day') as d (day)
  left join private.reconciliation_rows(
    reconciliation_days.since::timestamp at time zone 'Africa/Nairobi',
    (reconciliation_days.until + 1)::timestamp at time zone 'Africa/Nairobi'
  ) as r on private.nairobi_day(r.happened_at) = d.day::date
  group by d.day
  order by d.day desc;
end
$$;

comment on function public.reconciliation_days is
  'For staff: days of a range in Nairobi, newest first, with the sums of both books in cents and the number of differences by kind, and open ones.';

create or replace function public.resolve_difference(
  decision text, receipt text default null, payment_id uuid default null, order_id uuid default null,
  note text default null, is_sure boolean default false
) returns public.resolved_difference
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('reconciliation');
  member_email text := private.email_of(member);
  reported public.mpesa_transactions;
  money public.payments;
  reason text := private.read_reason(resolve_difference.note);
  settled public.settled_payment;
  outcome text;
  event_kind text;
  kept_cents integer;
  of_order uuid;
  code text := coalesce(private.normalised_receipt(resolve_difference.receipt), resolve_difference.receipt);
begin
  event_kind := case resolve_difference.decision
    when 'give' then 'given' when 'not_an_order' then 'not_an_order' when 'refund' then 'refund'
    when 'accept' then 'accepted' when 'reopen' then 'reopened' end;
  if event_kind is null or num_nonnulls(code, resolve_difference.payment_id) = 0 then
    perform private.refuse(400, 'decision_unknown', 'A difference is given to an order, sent back, noted, accepted or opened again');
  end if;

  -- Lock the order, then the receipt. If the receipt belongs to another order by then, start again: no transaction waits for an order
  -- while it holds a receipt.
  loop
    of_order := coalesce(
      resolve_difference.order_id,
      (select p.order_id from public.payments as p where p.id = resolve_difference.payment_id),
      (select p.order_id from public.payments as p where p.receipt = code)
    );
    begin
      perform from public.orders as o where o.id = of_order for no key update;
      if not found and resolve_difference.decision = 'give' then
        perform private.refuse(404, 'order_not_found', 'This order does not exist');
      elsif code is not null then
        perform pg_advisory_xact_lock(hashtext('settle ' || code));
        select * into reported from public.mpesa_transactions as t where t.receipt = code for update;
      end if;
      if of_order is distinct from coalesce(
        resolve_difference.order_id,
        (select p.order_id from public.payments as p where p.id = resolve_difference.payment_id),
        (select p.order_id from public.payments as p where p.receipt = code)
      ) then
        raise exception using errcode = 'JJ001';
      end if;
      exit;
    exception when sqlstate 'JJ001' then
      null;
    end;
  end loop;
  select * into money from public.payments as p where p.id = coalesce(
    resolve_difference.payment_id, reported.payment_id,
    -- M-PESA may not have reported the receipt that staff typed.
    (select typed.id from public.payments as typed where typed.receipt = code)
  );
  if reported.receipt is null and money.id is null then
    perform private.refuse(404, 'difference_not_found', 'This is not in the books any more');
  end if;

  if event_kind = 'accepted' and money.status = 'completed' and not money.needs_refund
    and exists (select from public.orders as o where o.id = money.order_id and o.payment_status = 'needs_review')
  then
    perform private.refuse(409, 'decide_order', 'Decide what happens to the order of this money');
  elsif event_kind = 'given' and money.purpose = 'test' then
    perform private.refuse(409, 'receipt_of_test', 'This is the receipt of a test with KSh 1. It pays no order');
  elsif (case event_kind
    when 'given' then reported.receipt is null or reported.payment_id is not null or reported.resolution is not null
    when 'not_an_order' then reported.payment_id is not null
    when 'refund' then money.id is null and reported.resolution is not null
    when 'reopened' then private.is_being_refunded(money.id, reported.receipt) or reported.resolution = 'given'
  end) then
    perform private.refuse(409, 'difference_changed', 'This was changed in the meantime. Please look at it again');
  elsif (event_kind = 'given' or (event_kind = 'refund' and money.id is null))
    and not private.is_whole_shillings(reported.received_cents) then
    perform private.refuse(409, 'amount_not_payable', 'This amount is no whole shillings and cannot pay an order');
  end if;

  if event_kind = 'given' then
    if private.is_being_refunded(null, reported.receipt) then
      perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
    end if;
    money := private.add_till_payment(resolve_difference.order_id, reported.received_cents, member);
    settled := public.settle_payment(
      payment_id => money.id, source => 'till',
      body => jsonb_build_object('receipt', reported.receipt, 'received_cents', reported.received_cents, 'confirmed_by', member, 'email', member_email)::text,
      result => 'succeeded', received_cents => reported.received_cents, receipt => reported.receipt
    );
    -- Staff can take it back before the customer is notified.
    perform private.postpone_messages(resolve_difference.order_id);
    money := settled.payment;
    outcome := case when money.method = 'prompt' and not money.needs_refund then 'joined' else settled.outcome end;
  elsif event_kind = 'refund' then
    -- The rules of refunds decide what may be refunded, and who must approve. The refund records its own event.
    perform public.request_refund(
      coalesce(reason, case when money.id is null then 'Not for any order' else 'Paid twice' end),
      money.id, reported.receipt, resolve_difference.is_sure
    );
  end if;

  -- Money that the shop keeps beyond the charge is owed to its customer.
  kept_cents := case
    when event_kind <> 'accepted' or money.status is distinct from 'completed' then 0
    when money.needs_refund then money.charge_cents
    else greatest(reported.received_cents - money.charge_cents, 0)
  end;
  if kept_cents >= 100 and not exists (select from public.change_notes as c where c.payment_id = money.id) then
    perform private.add_change_note(money, 'credit', kept_cents / 100 * 100, null, reason, member);
  end if;

  if reported.receipt is not null then
    update public.mpesa_transactions as t
    set resolution = nullif(event_kind, 'reopened'), resolved_by = case when event_kind <> 'reopened' then member end,
        resolved_at = case when event_kind <> 'reopened' then now() end, updated_at = now()
    where t.receipt = reported.receipt;
  end if;
  if event_kind <> 'refund' then
    insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
    values (
      coalesce(reported.receipt, money.receipt), money.id, coalesce(resolve_difference.order_id, money.order_id),
      event_kind, reason, member, member_email
    );
  end if;
  return (event_kind, outcome, money.id)::public.resolved_difference;
end
$$;

comment on function public.resolve_difference is
  'For staff: resolves a difference, named by its receipt or payment. give: assign it to an order, settled like every payment; not_an_order; refund: requested by the rules of refunds, money that may be an order''s only when is_sure; accept: leave it as it is, what is kept beyond the charge becomes credit; reopen. Money of an order that needs review is decided by resolve_review. Recorded in reconciliation_events.';

-- Execution rights
grant execute on function public.reconciliation_day, public.reconciliation_days,
  public.resolve_difference to authenticated, service_role;

create or replace function public.suggest_orders(receipt text, search text default '') returns setof public.suggested_order
language plpgsql stable security definer set search_path = '' as $$
declare
  reported public.mpesa_transactions;
  is_search boolean := trim(coalesce(suggest_orders.search, '')) <> '';
  -- Possibly paid by this money, whose receipt was lost.
  missing_receipt uuid[];
  named uuid[];
  of_attempt uuid;
  found_ids uuid[];
begin
  perform private.expect_staff('reconciliation');
  select * into reported from public.mpesa_transactions as t where t.receipt = private.normalised_receipt(suggest_orders.receipt);
  missing_receipt := array(select private.orders_missing_receipt(reported.receipt));
  named := array(select private.orders_named(private.order_numbers_in(reported.reference)));
  of_attempt := (select p.order_id from public.payments as p where p.id = reported.attempt_id);
  if is_search then
    found_ids := array(select s.id from public.search_orders(search => suggest_orders.search, page_size => 8) as s);
  end if;
  return query
  with likely as (
    select o.*, o.id = any (missing_receipt) as lacks_receipt, o.id = any (named) as is_named,
      o.charge_cents = reported.received_cents as fits_amount,
      private.compare_payer_phone(reported.payer_phone, o.customer_phone) as phone_match,
      private.shares_name(reported.payer_name, o.customer_name) as shares_name,
      o.created_at between reported.transacted_at - interval '3 days' and reported.transacted_at + interval '1 hour' as is_recent
    from public.orders as o
    where o.id in (
      select unnest(named || missing_receipt || of_attempt || found_ids)
      union
      select recent.id from public.orders as recent
      where private.can_be_paid(recent.payment_status)
        and recent.created_at between reported.transacted_at - interval '3 days' and reported.transacted_at + interval '1 hour'
    )
  ),
  judged as (
    select l.*,
      l.payment_status = 'unpaid' and l.fits_amount and l.is_recent and l.phone_match in ('whole', 'digits') as fits_all
    from likely as l
  ),
  counted as (
    select j.*, count(*) filter (where j.fits_all) over () as fitting from judged as j
  )
  select c.id, c.order_number, c.tracking_number, c.customer_name, c.customer_phone,
    (select string_agg(i.quantity || ' × ' || i.product_name, ', ' order by i.position)
     from public.order_items as i where i.order_id = c.id),
    c.total_amount, c.charge_cents, c.payment_status, c.status, c.created_at, c.lacks_receipt, c.is_named, c.fits_amount,
    c.phone_match, c.shares_name,
    c.fits_all and c.fitting = 1 and cardinality(array_remove(named, c.id)) = 0
      and (cardinality(missing_receipt) = 0 or c.lacks_receipt)
  from counted as c
  where case
    when is_search then c.id = any (found_ids)
    else c.lacks_receipt or c.is_named or c.id = of_attempt
      or (c.payment_status = 'unpaid' and (c.fits_amount or c.phone_match in ('whole', 'digits')))
      or (c.payment_status = 'needs_review' and c.phone_match in ('whole', 'digits'))
  end
  order by c.lacks_receipt desc, c.is_named desc, coalesce(c.phone_match in ('whole', 'digits'), false) desc, c.fits_amount desc,
    c.phone_match = 'whole' desc nulls last, c.shares_name desc nulls last, c.phone_match = 'differs' nulls first, c.created_at desc
  limit case when is_search then 8 else greatest(5, cardinality(named)) end;
end
$$;

comment on function public.suggest_orders is
  'For staff: orders that money may be for, the likeliest first: those with a prompt of this amount and time without a receipt, those that the reference names, then unpaid ones of the days before with the payer''s visible digits or of the same amount. With search: the orders that a search finds, with the same hints.';

create or replace function public.take_back_payment(payment_id uuid, note text default null) returns text
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('reconciliation');
  reason text := private.read_reason(take_back_payment.note);
  paid_order public.orders;
  taken public.payments;
  reported public.mpesa_transactions;
  was_told boolean;
begin
  -- The order first: then its payments and their receipts do not change.
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = take_back_payment.payment_id)
  for no key update;
  select * into taken from public.payments as p where p.id = take_back_payment.payment_id;
  perform pg_advisory_xact_lock(hashtext('settle ' || taken.receipt)) where taken.receipt is not null;
  select * into reported from public.mpesa_transactions as t where t.receipt = taken.receipt for update;
  select * into taken from public.payments as p where p.id = take_back_payment.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif paid_order.id is null or taken.status <> 'completed' or taken.method <> 'till' or taken.confirmed_by is null then
    perform private.refuse(409, 'not_assigned_by_staff', 'Only money that staff assigned or typed can be taken back from an order');
  elsif taken.refunded_at is not null or private.is_being_refunded(taken.id, taken.receipt) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  elsif reported.receipt is null and exists (select from public.refunds as r where r.payment_id = taken.id and r.tries > 0) then
    perform private.refuse(409, 'refund_exists', 'M-PESA was asked to send this money back before. It stays with its order');
  elsif exists (select from public.change_notes as c where c.payment_id = taken.id) then
    perform private.refuse(409, 'change_noted', 'Change of this money is noted already. It stays with its order');
  elsif not taken.needs_refund and private.was_handed_over(paid_order) then
    perform private.refuse(409, 'order_left', 'This order has left the shop. Its money cannot be taken back any more');
  elsif reported.received_cents >= paid_order.charge_cents and private.order_of_reference(reported.reference) = paid_order.id then
    perform private.refuse(409, 'named_by_payer', 'The payer named this order. Cancel it and send the money back instead');
  end if;

  was_told := exists (
    select from public.outbox_messages as m
    where m.order_id = paid_order.id and m.kind in ('order_paid', 'order_payment_held')
      and m.event_key = private.payment_event_key(paid_order.id) and private.may_have_arrived(m.status)
  );
  perform private.record_order_event(paid_order.id, 'payment_taken_back', 'staff', jsonb_build_object(
    'payment_id', taken.id, 'charge_cents', taken.charge_cents, 'receipt', taken.receipt, 'note', reason
  ));
  -- Before the payment is deleted: a second update of the row would check its foreign keys, and wait for the lock of another order.
  update public.mpesa_transactions as t
  set payment_id = null, resolution = null, resolved_by = null, resolved_at = null, updated_at = now(),
      order_id = case when private.order_of_reference(t.reference) = paid_order.id then paid_order.id else t.order_id end
  where t.receipt = taken.receipt;
  -- The messages stay as received, without the payment.
  update public.payment_messages as m
  set payment_id = null, outcome = case when m.source = 'till' then 'taken_back' else 'unmatched' end
  where m.payment_id = taken.id;
  -- Refunds that sent nothing stay with the money, and go with a receipt that only staff typed.
  delete from public.refunds as r where r.payment_id = taken.id and reported.receipt is null;
  update public.refunds as r set payment_id = null, transaction_receipt = reported.receipt, updated_at = now() where r.payment_id = taken.id;
  delete from public.payments as p where p.id = taken.id;
  insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
  values (taken.receipt, taken.id, paid_order.id, 'taken_back', reason, member, private.email_of(member));

  if not taken.needs_refund then
    perform private.settle_order_again(paid_order.id);
    perform private.postpone_messages(paid_order.id);
  end if;
  perform private.withdraw_messages(paid_order.id);
  select * into paid_order from public.orders as o where o.id = paid_order.id;
  if was_told and paid_order.payment_status = 'unpaid' and paid_order.status <> 'cancelled' then
    perform private.queue_order_messages(
      paid_order.id, 'order_payment_corrected', private.payment_event_key(paid_order.id), due_at => now() + private.undo_window()
    );
  end if;
  return paid_order.payment_status;
end
$$;

comment on function public.take_back_payment is
  'For staff: takes money that they assigned or typed back from its order, until the order leaves the shop. The money is unassigned again, and the order is what it was: unpaid with a new time for payment, under review, or paid by other money of its own. A customer who was notified of the payment gets a correction. Returns the order''s payment status.';

create or replace function public.resolve_review(order_id uuid, decision text, seen_cents integer, receipt text default null, note text default null)
returns text
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('refunds');
  reason text := private.read_reason(resolve_review.note);
  decided public.orders;
  largest public.payments;
  received bigint;
  surplus bigint;
begin
  if resolve_review.decision not in ('deliver', 'deliver_with_credit', 'deliver_and_return', 'cancel_and_refund') then
    perform private.refuse(400, 'decision_unknown', 'The order is delivered as paid, with credit, with change to send back, or refunded');
  end if;
  perform from public.orders as o where o.id = resolve_review.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif resolve_review.receipt is not null then
    perform public.resolve_difference('give', resolve_review.receipt, null, resolve_review.order_id, reason);
  end if;
  select * into decided from public.orders as o where o.id = resolve_review.order_id;
  select sum(p.charge_cents) into received from public.payments as p
  where p.order_id = decided.id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
    and not private.is_being_refunded(p.id, p.receipt);
  select p.* into largest from public.payments as p
  where p.order_id = decided.id and p.status = 'completed' and not p.needs_refund
  -- A surplus is of the money, not of the credit beside it.
  order by p.method = 'credit', p.charge_cents desc, p.id limit 1;
  surplus := received - decided.charge_cents;
  -- The exact charge under the receipt may have paid it already.
  if received is null or (decided.payment_status <> 'needs_review' and not (
    decided.payment_status = 'paid' and resolve_review.receipt is not null and surplus = 0 and resolve_review.decision = 'deliver'
  )) then
    perform private.refuse(409, 'nothing_to_resolve', 'This order has changed and needs no review any more');
  elsif received <> resolve_review.seen_cents then
    perform private.refuse(409, 'order_changed', 'This order was changed in the meantime. Nothing was saved');
  elsif (surplus > 0) <> (resolve_review.decision in ('deliver_with_credit', 'deliver_and_return')) and resolve_review.decision <> 'cancel_and_refund' then
    perform private.refuse(400, 'decision_unknown', 'The order is delivered as paid, with credit, with change to send back, or refunded');
  end if;

  if resolve_review.decision = 'cancel_and_refund' then
    -- Each refund records its own event.
    perform public.request_refund(coalesce(reason, 'Another amount than the charge'), p.id)
    from public.payments as p
    where p.order_id = decided.id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
      and not private.is_being_refunded(p.id, p.receipt);
    return resolve_review.decision;
  end if;
  if decided.payment_status = 'needs_review' then
    perform private.deliver_reviewed_order(decided.id);
  end if;
  insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
  values (largest.receipt, largest.id, decided.id, 'delivered', reason, member, private.email_of(member));
  if surplus > 0 then
    perform private.add_change_note(
      largest, case resolve_review.decision when 'deliver_with_credit' then 'credit' else 'to_return' end, surplus::integer, null, reason, member
    );
  end if;
  return resolve_review.decision;
end
$$;

comment on function public.resolve_review is
  'For staff: decides in one step about an order that needs review and the money that came for it (seen_cents: its sum as seen). deliver: a shortfall is forgiven. deliver_with_credit, deliver_and_return: the surplus is owed as credit, or to be sent back. cancel_and_refund: all of it goes back, by the rules of refunds. receipt: unassigned money that is assigned to the order first.';

create or replace function public.check_typed_receipt(order_id uuid, receipt text) returns public.typed_receipt
language plpgsql stable security definer set search_path = '' as $$
declare
  code text;
  reported_cents integer;
begin
  perform private.expect_staff('orders');
  code := private.read_receipt(check_typed_receipt.receipt);
  select t.received_cents into reported_cents from public.mpesa_transactions as t
  where t.receipt = code and (t.reported_by_confirmation_at is not null or t.reported_by_statement_at is not null);
  return (
    code,
    case
      when reported_cents is not null then 'reported'
      when private.should_be_reported(check_typed_receipt.order_id) then 'not_reported'
      else 'unknown'
    end,
    reported_cents,
    (select o.order_number from public.payments as p join public.orders as o on o.id = p.order_id where p.receipt = code)
  )::public.typed_receipt;
end
$$;

comment on function public.check_typed_receipt is
  'For staff: whether M-PESA has reported a receipt that they type for an order, and with which amount.';

-- Execution rights
grant execute on function public.suggest_orders, public.take_back_payment, public.resolve_review,
  public.check_typed_receipt to authenticated, service_role;

create policy "staff read every note of change, the counter recent ones" on public.change_notes
  for select to authenticated using ((select public.may('orders')) or exists (select from public.payments as p where p.id = payment_id));

create or replace function public.note_change(
  payment_id uuid, kind text, amount_cents integer, receipt text default null, note text default null, way text default null,
  seen_notes integer default null
) returns public.change_notes
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('refunds');
  reason text := private.read_reason(note_change.note);
  has_receipt boolean := nullif(trim(note_change.receipt), '') is not null;
  code text;
  phone text;
  paid public.payments;
  noted public.change_notes;
begin
  if note_change.kind is null or note_change.kind not in ('credit', 'to_return', 'returned') then
    perform private.refuse(400, 'decision_unknown', 'Change is credit, to be returned, or returned');
  elsif private.is_whole_shillings(note_change.amount_cents) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  elsif (has_receipt or note_change.way is not null) and note_change.kind <> 'returned' then
    perform private.refuse(400, 'receipt_invalid', 'Only change that was sent back has a receipt');
  end if;
  select o.customer_phone into phone from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = note_change.payment_id)
  for no key update;
  if note_change.kind = 'returned' then
    -- It cannot pay an order at the same time.
    perform private.lock_credit(phone);
  end if;
  if note_change.way is not null then
    code := private.read_way(note_change.way, note_change.receipt);
  elsif has_receipt then
    code := private.check_refund_receipt(note_change.receipt);
  end if;
  paid := private.lock_payment_to_return(note_change.payment_id, note_change.seen_notes);
  -- Earlier versions noted both in the same way.
  if note_change.way is not null and note_change.amount_cents > (select c.owed_cents from private.change_of(paid.id) as c) then
    perform private.refuse(409, 'change_exceeds_owed', 'This is more than what is owed of this payment. A part of the price goes back as a part refund');
  end if;
  if note_change.kind = 'returned' then
    perform private.check_refund_right(note_change.amount_cents, paid.id);
  end if;
  noted := private.add_change_note(
    paid, note_change.kind, note_change.amount_cents, code, reason, member, way => note_change.way
  );
  if note_change.way = 'mpesa' then
    perform private.queue_order_messages(paid.order_id, 'order_refunded', noted.id::text);
  end if;
  return noted;
end
$$;

comment on function public.note_change is
  'For staff: notes change of a payment: owed to the customer as credit or to be returned, or returned outside the shop in part, by M-PESA with its receipt or in cash (way; then at most what is owed). What is owed and what went back never exceed what came. seen_notes: the number of its notes that the caller saw; refuses if it has another now, so that a repeated call notes nothing twice.';

create or replace function public.refund_part(
  payment_id uuid, amount_cents integer, way text, reason text, receipt text default null,
  seen_notes integer default null
) returns public.change_notes
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('refunds');
  cause text := private.read_reason(refund_part.reason, is_required => true);
  refunded public.orders;
  code text;
  paid public.payments;
  noted public.change_notes;
begin
  if private.is_whole_shillings(refund_part.amount_cents) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  select o.* into refunded from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = refund_part.payment_id)
  for no key update;
  code := private.read_way(refund_part.way, refund_part.receipt);
  paid := private.lock_payment_to_return(refund_part.payment_id, refund_part.seen_notes);
  -- The money of a cancelled order, and a second payment, go back in full.
  if refunded.payment_status <> 'paid' or refunded.status = 'cancelled' or paid.needs_refund then
    perform private.refuse(409, 'part_not_refundable', 'Only part of what pays an order can go back like this. Other money goes back in full');
  end if;
  perform private.check_refund_right(refund_part.amount_cents, paid.id);
  noted := private.add_change_note(
    paid, 'returned', refund_part.amount_cents, code, cause, member, way => refund_part.way, is_part_refund => true
  );
  -- Who gets cash stands in front of the member or the rider.
  if refund_part.way = 'mpesa' then
    perform private.queue_order_messages(paid.order_id, 'order_refunded', noted.id::text);
  end if;
  return noted;
end
$$;

comment on function public.refund_part is
  'For staff: part of the price of a paid order went back outside the shop, by M-PESA with its receipt or in cash (way), with the reason; the order stays as it is. Its customer gets the message of a refund, for cash none. seen_notes: the number of its notes that the caller saw; refuses if it has another now, so that a repeated call notes nothing twice.';

-- Execution rights
grant execute on function public.note_change, public.refund_part to authenticated, service_role;

create or replace function public.credit_for_order(order_id uuid) returns setof public.owed_credit
language plpgsql stable security definer rows 2 set search_path = '' as $$
begin
  perform private.expect_staff('cash');
  return query
    select c.* from public.orders as o
    cross join lateral private.credit_of_phone(o.customer_phone) as c
    where o.id = credit_for_order.order_id and o.customer_phone <> '' and c.order_id <> o.id;
end
$$;

comment on function public.credit_for_order is
  'For staff: what is owed to the phone of an order from its other orders, and can pay it, the oldest first.';

create or replace function public.use_credit(order_id uuid, note text default null) returns public.payments
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('cash');
  reason text := private.read_reason(use_credit.note);
  ordered public.orders;
  received bigint;
  used public.payments;
begin
  select * into ordered from public.orders as o where o.id = use_credit.order_id for no key update;
  if ordered.payment_status = 'needs_review' then
    -- As resolve_review, which decides about such orders.
    perform private.expect_staff('refunds');
    select sum(p.charge_cents) into received from public.payments as p
    where p.order_id = ordered.id and p.status = 'completed' and not p.needs_refund;
    if received >= ordered.charge_cents or exists (
      select from public.payments as p
      where p.order_id = ordered.id and p.status = 'completed' and not p.needs_refund
        and (p.refunded_at is not null or private.is_being_refunded(p.id, p.receipt))
    ) then
      perform private.refuse(409, 'decide_order', 'Decide what happens to the order of this money');
    end if;
    used := private.pay_from_credit(ordered, (ordered.charge_cents - coalesce(received, 0))::integer, reason, member);
    perform private.deliver_reviewed_order(ordered.id);
    return used;
  end if;
  ordered := private.lock_order_for_cash(use_credit.order_id);
  if ordered.charge_cents < 100 then
    perform private.refuse(409, 'nothing_to_pay', 'There is nothing to pay for this order');
  end if;
  used := private.pay_from_credit(ordered, ordered.charge_cents, reason, member);
  perform private.take_units_to_pay(ordered);
  perform private.set_order_paid(ordered, 'credit');
  return used;
end
$$;

comment on function public.use_credit is
  'For staff: what is owed to the phone of an order pays what is missing of it: all of an unpaid order, or the rest of one that needs review for less than its charge. Refuses if less is owed (the hint is that, in cents). With cash for the rest: receive_cash.';

create or replace function public.take_back_credit(payment_id uuid, reason text) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('cash');
  cause text := private.read_reason(take_back_credit.reason, is_required => true);
  ordered public.orders;
  taken public.payments;
begin
  select o.* into ordered from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = take_back_credit.payment_id)
  for no key update;
  select * into taken from public.payments as p where p.id = take_back_credit.payment_id for update;
  if taken.id is null then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif taken.method <> 'credit' or taken.status <> 'completed' or taken.refunded_at is not null or taken.needs_refund
    or not private.has_money(ordered.payment_status) or ordered.status = 'cancelled'
    or exists (select from public.change_notes as c where c.payment_id = taken.id)
  then
    perform private.refuse(409, 'payment_final', 'This payment cannot be corrected any more. Please look at it in Reconciliation');
  elsif private.was_handed_over(ordered) then
    perform private.refuse(409, 'order_left', 'This order has left the shop. Its money cannot be taken back any more');
  elsif exists (
    select from public.payments as p
    where p.order_id = ordered.id and p.method = 'cash' and p.status = 'completed' and p.refunded_at is null
  ) then
    perform private.refuse(409, 'paid_in_cash_too', 'Cash paid the rest of this order. Take the cash back: the credit goes with it');
  end if;
  perform private.release_credit(taken, cause, member);
  update public.payments as p set status = 'failed', note = cause, updated_at = now() where p.id = taken.id;
  perform private.settle_order_again(ordered.id);
  perform private.postpone_messages(ordered.id);
  perform private.withdraw_messages(ordered.id);
end
$$;

comment on function public.take_back_credit is
  'For staff: credit was used by mistake for an order that has not left the shop. It is owed again, and the order is what it was: unpaid with a new time for payment, or under review with the money that came; the payment stays in the books as taken back, with the reason.';

create or replace function public.kept_for_customers(
  only_owed boolean default true, before_created_at timestamptz default null, before_id uuid default null, page_size integer default 50
) returns setof public.kept_money
language plpgsql stable security definer rows 50 set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('refunds');
  return query
    select p.id, o.id, o.order_number, o.customer_name, o.customer_phone, first.noted_at,
      change.owed_cents + change.used_cents + settled.cents,
      change.used_cents,
      case when p.refunded_at is null then settled.cents else settled.cents + change.owed_cents end,
      case when p.refunded_at is null then change.owed_cents else 0 end,
      (
        select string_agg(distinct of_use.order_number, ', ')
        from public.change_notes as use
        join public.payments as used on used.id = use.used_for and used.status = 'completed' and used.refunded_at is null
        join public.orders as of_use on of_use.id = used.order_id
        where use.payment_id = p.id and use.kind = 'used'
      )
    -- The first note of each payment, by the index of what owes; the rest of each row by keys.
    from public.change_notes as first
    cross join lateral (select * from public.payments as p where p.id = first.payment_id offset 0) as p
    cross join lateral (select * from public.orders as o where o.id = p.order_id offset 0) as o
    cross join lateral private.change_of(p.id) as change
    cross join lateral (
      select coalesce(sum(c.amount_cents), 0)::bigint as cents from public.change_notes as c
      where c.payment_id = p.id and c.kind = 'returned' and not c.is_part_refund
    ) as settled
    where first.kind in ('credit', 'to_return')
      and not exists (
        select from public.change_notes as earlier
        where earlier.payment_id = first.payment_id and earlier.kind in ('credit', 'to_return')
          and (earlier.noted_at, earlier.id) < (first.noted_at, first.id)
      )
      and (kept_for_customers.before_created_at is null
        or (first.noted_at, p.id) < (kept_for_customers.before_created_at, kept_for_customers.before_id))
      and (not kept_for_customers.only_owed or (p.refunded_at is null and change.owed_cents > 0))
    order by first.noted_at desc, p.id desc
    limit least(greatest(coalesce(kept_for_customers.page_size, 50), 1), 1000);
end
$$;

comment on function public.kept_for_customers is
  'For staff: payments of which something was kept for the customer, the newest first, after the one named by before_created_at and before_id. only_owed: those of which some is still owed.';

create or replace function public.kept_totals() returns table (owed_cents bigint, used_cents bigint, returned_cents bigint, customers integer)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('refunds');
  return query
    select coalesce(sum(k.owed_cents), 0)::bigint, coalesce(sum(k.used_cents), 0)::bigint, coalesce(sum(k.returned_cents), 0)::bigint,
      (count(distinct nullif(k.customer_phone, '')) filter (where k.owed_cents > 0))::integer
    from public.kept_for_customers(false, page_size => 1000) as k;
end
$$;

comment on function public.kept_totals is
  'For staff: what is owed, was used and went back of what was kept for customers, in cents, and to how many phones something is owed. Of the newest 1,000 such payments.';

-- Execution rights
grant execute on function public.credit_for_order, public.use_credit, public.take_back_credit, public.kept_for_customers, public.kept_totals
  to authenticated, service_role;

create policy "staff edit every delivery, the counter those of recent orders" on public.deliveries
  for all to authenticated using ((select public.may('orders')) or ((select public.may('deliveries')) and public.is_recent_order(order_id)))
  with check ((select public.may('orders')) or ((select public.may('deliveries')) and public.is_recent_order(order_id)));

create or replace function public.assign_delivery(
  order_id uuid, delivery_person text, delivery_phone text, delivery_vehicle text, delivery_notes text default null,
  seen_updated_at timestamptz default null
) returns public.deliveries
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person text := private.visible_text(assign_delivery.delivery_person);
  phone text := private.visible_text(assign_delivery.delivery_phone);
  vehicle text := private.visible_text(assign_delivery.delivery_vehicle);
  notes text := private.visible_text(assign_delivery.delivery_notes);
  ordered public.orders;
  delivery public.deliveries;
begin
  perform private.expect_staff('deliveries');
  perform private.check_rider(person, phone, vehicle, notes);

  select * into ordered from public.orders as o where o.id = assign_delivery.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  select * into delivery from public.deliveries as d where d.order_id = ordered.id;
  -- A repeated request changes nothing.
  if (delivery.delivery_person, delivery.delivery_phone, delivery.delivery_vehicle, delivery.delivery_notes)
    is not distinct from (person, phone, vehicle, notes) then
    return delivery;
  elsif coalesce(delivery.delivery_status, 'pending') in ('pending', 'failed') and ordered.status = 'cancelled' then
    perform private.refuse(409, 'delivery_of_cancelled_order',
      'This order was cancelled. To deliver it after all, change the order first');
  elsif assign_delivery.seen_updated_at is null and delivery.delivery_person is not null then
    perform private.refuse(409, 'delivery_already_assigned',
      format('%s already has this delivery. Nothing was changed', delivery.delivery_person));
  elsif delivery.id is null then
    insert into public.deliveries (order_id, delivery_status, delivery_person, delivery_phone, delivery_vehicle, delivery_notes)
    values (ordered.id, 'assigned', person, phone, vehicle, notes)
    returning * into delivery;
    return delivery;
  end if;
  -- A locked delivery counts as changed: the request that has it waits for this order.
  perform from public.deliveries as d where d.id = delivery.id for no key update skip locked;
  if not found or assign_delivery.seen_updated_at <> delivery.updated_at then
    perform private.refuse(409, 'delivery_changed',
      'This delivery was changed in the meantime. Please look at it again and save once more if you still want to');
  end if;
  update public.deliveries as d
  set delivery_person = person, delivery_phone = phone, delivery_vehicle = vehicle, delivery_notes = notes,
      delivery_status = case when d.delivery_status = 'pending' then 'assigned' else d.delivery_status end
  where d.id = delivery.id
  returning * into delivery;
  return delivery;
end
$$;

comment on function public.assign_delivery is
  'Assigns the delivery of an order. Changes an existing assignment only with the updated_at that the caller read.';

create or replace function public.recent_riders() returns table (
  name text, phone text, vehicle text, open_deliveries integer, last_assigned_at timestamptz
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('deliveries');
  return query
    with open as materialized (
      select lower(d.delivery_person) as name, count(*)::integer as count
      from (select * from public.deliveries as d where private.is_open_delivery(d.delivery_status) offset 0) as d
      where d.delivery_status <> 'pending' and d.created_at > now() - interval '60 days'
      group by 1
    )
    select latest.delivery_person, latest.delivery_phone, latest.delivery_vehicle,
      coalesce((select o.count from open as o where o.name = lower(latest.delivery_person)), 0), latest.updated_at
    from private.newest_delivery_of_each_rider(now() - interval '60 days') as latest
    order by latest.updated_at desc
    limit 20;
end
$$;

comment on function public.recent_riders is
  'For staff: riders of the last 60 days, with phone and vehicle of their newest delivery and the number of open deliveries.';

-- Execution rights
grant execute on function public.assign_delivery, public.recent_riders to authenticated, service_role;

create policy "staff read every timeline, the counter those of recent orders" on public.order_events
  for select to authenticated using ((select public.may('orders')) or ((select public.may('deliveries')) and public.is_recent_order(order_id)));

create or replace function public.resolve_paid_order(order_id uuid, resolution text) returns void
language plpgsql security definer set search_path = '' as $$
declare
  decided public.orders;
begin
  perform private.expect_staff('refunds');
  select * into decided from public.orders as o where o.id = resolve_paid_order.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif resolve_paid_order.resolution = 'deliver' and decided.payment_status = 'needs_review' then
    perform private.deliver_reviewed_order(decided.id);
  elsif resolve_paid_order.resolution = 'refunded' and (
    decided.payment_status = 'needs_review' or (decided.payment_status = 'paid' and decided.status = 'cancelled')
  ) then
    -- This procedure must not bypass receipts and approval of refunds.
    if exists (select from public.payments as p where p.order_id = decided.id and p.status = 'completed') then
      perform private.refuse(409, 'refund_by_receipt',
        'Send this money back by M-PESA, or enter the M-PESA receipt by which it was sent back');
    end if;
    update public.orders as o
    set payment_status = 'refunded', status = 'cancelled', cancel_reason = coalesce(o.cancel_reason, 'refunded'),
        -- An order that needed review holds no units.
        units_returned_at = case when decided.payment_status = 'needs_review' then now() else o.units_returned_at end,
        updated_at = now()
    where o.id = decided.id;
  else
    perform private.refuse(409, 'nothing_to_resolve', 'This order has changed and needs no review any more');
  end if;
end
$$;

comment on function public.resolve_paid_order is
  'For staff: deliver an order that needs review, if its units are in stock; or mark such an order, or a cancelled one, as refunded, if the shop has no payment of it. Payments are refunded by request_refund or note_refund_by_hand.';

create or replace function public.set_order_status(
  order_id uuid, status text, expected_status text, expected_payment_status text, although_unpaid boolean default false
) returns public.status_change
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  changed public.orders;
  state_before jsonb;
begin
  perform private.expect_staff('orders');
  select * into changed from public.orders as o where o.id = set_order_status.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif (changed.status, changed.payment_status) is distinct from (set_order_status.expected_status, set_order_status.expected_payment_status) then
    perform private.refuse(409, 'order_changed', 'This order was changed in the meantime. Nothing was saved');
  end if;
  state_before := private.order_state(changed.id);
  perform private.state('although_unpaid', set_order_status.although_unpaid);
  update public.orders as o
  set status = set_order_status.status, cancel_reason = case when set_order_status.status = 'cancelled' then 'by_shop' end, updated_at = now()
  where o.id = changed.id;
  perform private.state('although_unpaid', false);
  return private.record_status_change(changed.id, state_before);
end
$$;

comment on function public.set_order_status is
  'For staff: sets the status of an order that still has the expected status and payment status. although_unpaid: consent to hand it over unpaid. Returns change_id for undo_status_change, undo_seconds, and notifies_customer: whether a message is sent after that time.';

create or replace function public.set_delivery_status(
  delivery_id uuid, status text, expected_status text, although_unpaid boolean default false, failure_reason text default null
) returns public.status_change
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  changed public.deliveries;
  state_before jsonb;
begin
  perform private.expect_staff('deliveries');
  changed := private.lock_delivery(set_delivery_status.delivery_id);
  if changed.delivery_status is distinct from set_delivery_status.expected_status then
    perform private.refuse(409, 'delivery_changed', 'This delivery was changed in the meantime. Nothing was saved');
  end if;
  state_before := private.order_state(changed.order_id);
  perform private.state('although_unpaid', set_delivery_status.although_unpaid);
  update public.deliveries as d
  set delivery_status = set_delivery_status.status, failure_reason = set_delivery_status.failure_reason
  where d.id = changed.id;
  perform private.state('although_unpaid', false);
  return private.record_status_change(changed.order_id, state_before);
end
$$;

comment on function public.set_delivery_status is
  'For staff: sets the status of a delivery that still has the expected one; its order follows. failure_reason: why it failed; the customer reads it. although_unpaid and result as in set_order_status.';

create or replace function public.undo_status_change(change_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
declare
  change private.status_changes;
  had_delivery jsonb;
begin
  perform private.expect_staff('deliveries');
  select * into change from private.status_changes as c
  where c.id = undo_status_change.change_id and c.changed_by is not distinct from (select auth.uid())
  for update;
  if not found or change.undo_until < clock_timestamp() then
    perform private.refuse(409, 'undo_too_late', 'It is too late to undo this. Set the status again instead');
  end if;
  had_delivery := nullif(change.state_before -> 'delivery', 'null');
  perform from public.orders as o where o.id = change.order_id for no key update;
  -- A locked delivery counts as changed, as in set_delivery_status.
  perform from public.deliveries as d where d.order_id = change.order_id for no key update skip locked;
  if (not found and had_delivery is not null) or private.order_state(change.order_id) is distinct from change.state_after then
    perform private.refuse(409, 'undo_overtaken', 'This order has changed again since then. Nothing was undone');
  elsif exists (
    select from public.outbox_messages as m
    where m.order_id = change.order_id and m.attempts > 0
      and m.sending_since >= change.undo_until - private.undo_window()
      and private.is_status_message(m.kind)
  ) then
    perform private.refuse(409, 'undo_after_message', 'The customer has been notified already. Set the status again instead');
  end if;

  perform private.state('undoes');
  -- The delivery first: messages about its order read it.
  if had_delivery is not null then
    update public.deliveries as d
    set delivery_status = had_delivery ->> 'delivery_status',
        delivery_person = had_delivery ->> 'delivery_person',
        delivery_phone = had_delivery ->> 'delivery_phone',
        delivery_vehicle = had_delivery ->> 'delivery_vehicle',
        pickup_time = (had_delivery ->> 'pickup_time')::timestamptz,
        delivery_time = (had_delivery ->> 'delivery_time')::timestamptz,
        taken_by = had_delivery ->> 'taken_by',
        ready_at = (had_delivery ->> 'ready_at')::timestamptz,
        failure_reason = had_delivery ->> 'failure_reason',
        failures = coalesce((had_delivery ->> 'failures')::smallint, d.failures)
    where d.order_id = change.order_id;
  end if;
  update public.orders as o
  set status = change.state_before ->> 'status', cancel_reason = change.state_before ->> 'cancel_reason', updated_at = now()
  where o.id = change.order_id and o.status <> change.state_before ->> 'status';
  perform private.state('undoes', false);
  perform private.withdraw_messages(change.order_id);
  delete from private.status_changes as c where c.id = change.id;
end
$$;

comment on function public.undo_status_change is
  'For the staff member who made a change: restores the status of order and delivery with its times, and withdraws the message. Refuses after the undo window, once the message was sent, or if the order has changed again.';

create or replace function public.ended_pay_links() returns table (
  order_id uuid, order_number text, customer_name text, charge_cents integer, ended_at timestamptz
)
language plpgsql stable security definer rows 10 set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('orders');
  return query
    select o.id, o.order_number, o.customer_name, o.charge_cents, l.ended_at
    from (
      select * from private.ended_pay_links as recent where recent.ended_at > now() - interval '1 day'
      order by recent.ended_at desc limit 100
    ) as l
    cross join lateral (select * from public.orders as own where own.id = l.order_id offset 0) as o
    where o.status = 'cancelled' and o.payment_status = 'unpaid'
    order by l.ended_at desc;
end
$$;

comment on function public.ended_pay_links is
  'For staff: orders of the last day that ended unpaid although their customers got the link from staff, and that no one has dealt with; the newest first.';

create or replace function public.dismiss_ended_pay_link(order_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
begin
  perform private.expect_staff('orders');
  delete from private.ended_pay_links as l where l.order_id = dismiss_ended_pay_link.order_id or l.ended_at < now() - interval '1 day';
end
$$;

comment on function public.dismiss_ended_pay_link is 'For staff: someone has dealt with an order that ended unpaid. Repeating it changes nothing.';

create or replace function public.show_pay_link(order_id uuid) returns public.pay_link
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  shown public.orders;
begin
  perform private.expect_staff('orders');
  select * into shown from public.orders as o where o.id = show_pay_link.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif shown.payment_status <> 'unpaid' then
    perform private.refuse(409, 'order_already_paid', 'This order is already paid');
  elsif shown.status = 'cancelled' then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  end if;
  perform private.wait_for_pay_link(shown);
  -- Once per member and hour: the member who copies the link again has seen it.
  if not exists (
    select from public.order_events as e
    where e.order_id = shown.id and e.kind = 'pay_link_shown' and e.actor_id is not distinct from auth.uid()
      and e.happened_at > now() - interval '1 hour'
  ) then
    perform private.record_order_event(shown.id, 'pay_link_shown', 'shop');
  end if;
  return (
    shown.tracking_number, (select k.access_key from private.order_keys as k where k.order_id = shown.id)
  )::public.pay_link;
end
$$;

comment on function public.show_pay_link is
  'For staff: the access key of an order that waits for its payment, for a link to its customer. From then on the order waits a day. Recorded in its timeline. Who has it reads the customer''s details, so it is not among the columns of orders.';

-- Execution rights
grant execute on function public.resolve_paid_order, public.set_order_status, public.set_delivery_status,
  public.undo_status_change, public.show_pay_link, public.ended_pay_links, public.dismiss_ended_pay_link to authenticated, service_role;

create or replace function public.work_queue() returns setof public.deliveries
language plpgsql stable security definer rows 100 set search_path = '' as $$
begin
  perform private.expect_staff('deliveries');
  return query
    select d.*
    from public.orders as o
    -- One step in an index for each open order: the planner would rather read all deliveries.
    cross join lateral (select * from public.deliveries as own where own.order_id = o.id limit 1) as d
    where private.is_open_order(o.status) and private.is_to_deliver(o.payment_status, o.payment_method)
    order by d.created_at, d.id
    limit 500;
end
$$;

comment on function public.work_queue is
  'For staff: the deliveries of all orders that are paid, or paid in cash at the door, and are neither delivered nor cancelled, the earliest payment first, at most 500.';

create or replace function public.move_on(
  delivery_id uuid, expected_step text, step text,
  delivery_person text default null, delivery_phone text default null, delivery_vehicle text default null
) returns public.status_change
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person text := private.visible_text(move_on.delivery_person);
  phone text := private.visible_text(move_on.delivery_phone);
  vehicle text := private.visible_text(move_on.delivery_vehicle);
  member constant text := private.email_of((select auth.uid()));
  changed public.deliveries;
  state_before jsonb;
begin
  perform private.expect_staff('deliveries');
  changed := private.lock_delivery(move_on.delivery_id);
  if (select private.work_step(o, changed) from public.orders as o where o.id = changed.order_id)
    is distinct from move_on.expected_step
  then
    perform private.refuse(409, 'delivery_changed', 'This delivery was changed in the meantime. Nothing was saved');
  end if;
  state_before := private.order_state(changed.order_id);
  case move_on.step
    when 'prepare' then
      changed.taken_by := null;
      changed.ready_at := null;
    when 'preparing' then
      changed.taken_by := member;
      changed.ready_at := null;
    when 'ready' then
      changed.taken_by := coalesce(changed.taken_by, member);
      changed.ready_at := coalesce(changed.ready_at, clock_timestamp());
    when 'on_the_way' then
      if (select o.is_collected from public.orders as o where o.id = changed.order_id) then
        perform private.refuse(409, 'order_is_collected', 'The customer collects this order at the shop, so no rider takes it');
      end if;
      if changed.delivery_person is null then
        perform private.check_rider(person, phone, vehicle);
        changed.delivery_person := person;
        changed.delivery_phone := phone;
        changed.delivery_vehicle := vehicle;
      elsif person is distinct from changed.delivery_person and person is not null then
        perform private.refuse(409, 'delivery_already_assigned',
          format('%s already has this delivery. Nothing was changed', changed.delivery_person));
      end if;
    when 'delivered' then
    else
      perform private.refuse(400, 'step_unknown', 'This is no step of an order');
  end case;
  update public.deliveries as d
  set delivery_status = case
        when move_on.step = 'on_the_way' then 'picked_up'
        when move_on.step = 'delivered' then 'delivered'
        when private.is_before_pickup(changed.delivery_status) then changed.delivery_status
        when changed.delivery_person is null then 'pending'
        else 'assigned'
      end,
      delivery_person = changed.delivery_person, delivery_phone = changed.delivery_phone, delivery_vehicle = changed.delivery_vehicle,
      taken_by = changed.taken_by, ready_at = changed.ready_at
  where d.id = changed.id;
  return private.record_status_change(changed.order_id, state_before);
end
$$;

comment on function public.move_on is
  'For staff: moves a paid order to a step of private.work_step or to delivered, if it still is at the expected one. preparing: the caller has it. ready: it is packed. on_the_way: its rider takes it, the one given if none was assigned; refused for an order that is collected, which goes from ready to delivered. Result as in set_order_status.';

-- Execution rights
grant execute on function public.work_queue, public.move_on to authenticated, service_role;

-- Under row level security the trigram indexes cannot be used, since LIKE is not leakproof. So these functions check the caller and
-- then read with their owner's rights.
create or replace function public.search_orders(
  search text default '', status text default null, payment text default null, from_day date default null,
  until_day date default null, rider text default null, due text default null,
  before_created_at timestamptz default null, before_id uuid default null, page_size integer default 50, sort text default null
) returns setof public.orders
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff('orders');
  found_ids := private.find_in_list(
    ('orders', search, status, payment, from_day, until_day, rider, due), sort, before_created_at, before_id, page_size
  );
  return query
    select o.*
    from unnest(found_ids) with ordinality as f (id, place)
    -- One step in an index for each row: the planner cannot know how few there are.
    cross join lateral (select * from public.orders as own where own.id = f.id limit 1) as o
    order by f.place;
end
$$;

comment on function public.search_orders is
  'For staff: a page of orders, newest first unless sorted otherwise, after the one named by before_created_at and before_id. search: words that must all match, ignoring case, in number, name, email, phone, address, area or products; or a phone number; or a complete tracking number or M-PESA receipt. status: shipped includes out_for_delivery. payment: paid, unpaid, needs_review, refund_due, refunded. from_day, until_day: in Nairobi. rider: name. due: late, or a step of private.work_step: prepare (also being prepared), ready, on_the_way, failed. sort: date (oldest first), -date (default), customer, -customer, total, -total, status or -status; by another column than the date only the newest 5,000 of the list.';

create or replace function public.count_orders(
  search text default '', status text default null, payment text default null, from_day date default null,
  until_day date default null, rider text default null, due text default null
) returns integer
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('orders');
  return private.count_in_list(('orders', search, status, payment, from_day, until_day, rider, due));
end
$$;

comment on function public.count_orders is
  'For staff: number of orders that search_orders finds on all pages. 501 means more than 500, for a search or rider; 10001 more than 10,000, for other filters.';

create or replace function private.first_day_of_deliveries(from_day date) returns date
language sql stable set search_path = '' as $$
  select case
    when (select auth.role()) = 'authenticated' and not public.may('orders')
    then greatest(from_day, private.nairobi_day(now()) - private.counter_days() + 1)
    else from_day
  end;
$$;

comment on function private.first_day_of_deliveries is
  'The first day of which the caller sees deliveries: that of the filter, for the role counter not before its seven days.';

create or replace function public.search_deliveries(
  search text default '', status text default null, from_day date default null, until_day date default null,
  rider text default null, due text default null, before_created_at timestamptz default null,
  before_id uuid default null, page_size integer default 50, sort text default null
) returns setof public.deliveries
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff('deliveries');
  found_ids := private.find_in_list(
    ('deliveries', search, status, null, private.first_day_of_deliveries(from_day), until_day, rider, due), sort, before_created_at, before_id, page_size
  );
  return query
    select d.*
    from unnest(found_ids) with ordinality as f (id, place)
    cross join lateral (select * from public.deliveries as own where own.id = f.id limit 1) as d
    order by f.place;
end
$$;

comment on function public.search_deliveries is
  'For staff: a page of deliveries, newest first unless sorted otherwise, after the one named by before_created_at and before_id. search: as in search_orders, also in name and phone of the rider. from_day, until_day: of the payment, in Nairobi. due: late. sort: as in search_orders, and rider or -rider instead of the total.';

create or replace function public.count_deliveries(
  search text default '', status text default null, from_day date default null, until_day date default null,
  rider text default null, due text default null
) returns integer
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('deliveries');
  return private.count_in_list(
    ('deliveries', search, status, null, private.first_day_of_deliveries(from_day), until_day, rider, due)
  );
end
$$;

comment on function public.count_deliveries is
  'For staff: number of deliveries that search_deliveries finds on all pages. 501 means more than 500, for a search or rider; 10001 more than 10,000, for other filters.';

create or replace function public.count_work() returns table (
  to_prepare integer, ready integer, on_the_way integer, failed integer, late integer, unpaid integer, refunds_due integer, to_assign integer,
  late_deliveries integer, cash_not_received integer
)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('deliveries');
  return query select
    private.count_in_list(('orders', null, null, null, null, null, null, 'prepare')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'ready')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'on_the_way')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'failed')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'late')),
    private.count_in_list(('orders', null, null, 'unpaid', null, null, null, null)),
    private.count_in_list(('orders', null, null, 'refund_due', null, null, null, null)),
    private.count_in_list(('deliveries', null, 'pending', null, null, null, null, null)),
    private.count_in_list(('deliveries', null, null, null, null, null, null, 'late')),
    private.count_in_list(('orders', null, 'delivered', 'cash', null, null, null, null));
end
$$;

comment on function public.count_work is
  'For staff: numbers of orders and deliveries that need work, by kind. 10001 means more than 10,000. One row.';

create or replace function public.customer_by_phone(phone text) returns public.known_customer
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  wanted constant text := private.normalised_phone(customer_by_phone.phone);
  own public.orders[];
  customer public.known_customer;
begin
  perform private.expect_staff('orders');
  if wanted is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)');
  end if;
  own := array(select o from private.orders_of_phone(wanted) as o order by o.created_at desc, o.id desc);
  if cardinality(own) = 0 then
    return null;
  end if;
  customer.phone := wanted;
  customer.name := (own[1]).customer_name;
  select count(*) filter (where o.status <> 'cancelled'),
    coalesce((array_agg(o.customer_email order by o.created_at desc, o.id desc) filter (where o.customer_email <> ''))[1], ''),
    coalesce(sum((
      select sum(p.charge_cents - change.returned_cents) from public.payments as p
      cross join lateral private.change_of(p.id) as change
      where p.order_id = o.id and p.status = 'completed' and p.refunded_at is null and p.method <> 'credit'
    )), 0)
  into customer.orders, customer.email, customer.received_cents
  from unnest(own) as o;
  customer.addresses := array(
    select (latest.shipping_address, latest.delivery_notes)::public.known_address
    from (
      select distinct on (lower(o.shipping_address)) o.shipping_address, o.delivery_notes, o.created_at, o.id
      from unnest(own) as o
      where not o.is_collected
      order by lower(o.shipping_address), o.created_at desc, o.id desc
    ) as latest
    order by latest.created_at desc, latest.id desc
    limit 3
  );
  customer.last_orders := array(
    select (o.id, o.order_number, o.created_at, o.status, o.payment_status, o.total_amount, array(
      select (i.product_id, i.product_name, i.quantity, i.unit_price)::public.past_item
      from public.order_items as i where i.order_id = o.id order by i.position
    ))::public.past_order
    from unnest(own[1:5]) as o
    order by o.created_at desc, o.id desc
  );
  return customer;
end
$$;

comment on function public.customer_by_phone is
  'For staff: the customer with this phone, in any Kenyan format. Null: no order has it. Orders that were anonymised are no longer anyone''s.';

create or replace function public.drinks_to_order(search text default '', ids uuid[] default null) returns table (
  id uuid, name text, brand text, price integer, image_url text, units_left integer, sold integer
)
language plpgsql stable security definer rows 30 set search_path = '' as $$
#variable_conflict use_column
declare
  words constant text[] := array(
    select '%' || regexp_replace(w.word, '([\\%_])', '\\\1', 'g') || '%'
    from regexp_split_to_table(trim(left(private.without_accents(drinks_to_order.search), 100)), '\s+') as w (word)
    where w.word <> ''
  );
begin
  perform private.expect_staff('orders');
  -- Reads the whole catalogue, as find_products by a column, and of the orders only the newest.
  return query
    with sales as (
      select i.product_id, sum(i.quantity)::integer as units
      from (select o.id, o.status from public.orders as o order by o.created_at desc, o.id desc limit 300) as newest
      cross join lateral (select * from public.order_items as own where own.order_id = newest.id offset 0) as i
      where newest.status <> 'cancelled'
      group by i.product_id
    )
    select p.id, p.name, p.brand, p.price, p.image_url, public.units_for_sale(p), coalesce(s.units, 0)
    from public.products as p
    left join sales as s on s.product_id = p.id
    where p.is_active and (drinks_to_order.ids is null or p.id = any (drinks_to_order.ids))
      and private.without_accents(p.name || ' ' || coalesce(p.brand, '')) like all (words)
    order by public.units_for_sale(p) = 0, coalesce(s.units, 0) desc, lower(p.name), p.id
    limit 30;
end
$$;

comment on function public.drinks_to_order is
  'For staff who enter an order: up to 30 active products whose name and brand contain all words of a search, or those with these ids, with their price and the units that can be ordered now. Those of the newest 300 orders first, by units sold; those that cannot be ordered last.';

-- Execution rights
grant execute on function public.search_orders, public.count_orders, public.search_deliveries, public.count_deliveries,
  public.count_work, public.customer_by_phone, public.drinks_to_order to authenticated, service_role;

create policy "staff read every note about customers" on public.customer_notes
  for select to authenticated using ((select public.may('orders')));

create policy "staff read every blocked phone" on public.blocked_phones for select to authenticated using ((select public.may('orders')));

create or replace function public.list_customers(
  search text default '', kind text default null, sort text default null,
  before_created_at timestamptz default null, before_id uuid default null, page_size integer default 25
) returns setof public.listed_customer
language plpgsql stable security definer rows 25 set search_path = '' as $$
#variable_conflict use_column
declare
  most constant integer := least(greatest(coalesce(list_customers.page_size, 25), 1), 1000);
  words constant text[] := array(
    select '%' || regexp_replace(w.word, '([\\%_])', '\\\1', 'g') || '%'
    from regexp_split_to_table(trim(left(private.without_accents(list_customers.search), 100)), '\s+') as w (word)
    where w.word <> ''
  );
  digits constant text := regexp_replace(left(list_customers.search, 100), '\D', '', 'g');
  phones text[];
begin
  perform private.expect_staff('orders');
  if list_customers.kind not in ('repeat', 'credit', 'blocked') then
    perform private.refuse(400, 'filter_unknown', 'Customers are listed with repeat orders, with credit, or blocked');
  elsif coalesce(list_customers.sort, '') not in ('', 'name', '-name', 'orders', '-orders', 'spent', '-spent') then
    perform private.refuse(400, 'sort_unknown', 'Customers are sorted by name, orders or spending');
  end if;
  if cardinality(words) = 0 and coalesce(list_customers.sort, '') = '' and coalesce(list_customers.kind, 'repeat') = 'repeat' then
    return query
      with page as (
        select n.* from private.newest_of_phones(
          list_customers.before_created_at, list_customers.before_id, most, list_customers.kind is not null
        ) as n
      ), sums as (
        select s.* from private.sums_of_phones((select array_agg(p.phone) from page as p)) as s
      )
      select p.id, p.created_at, p.phone, p.name, s.orders, s.spent_cents, s.credit_cents, private.is_blocked(p.phone)
      from page as p join sums as s on s.phone = p.phone
      order by p.created_at desc, p.id desc;
    return;
  end if;
  -- A search, a rare kind of customer, or another order than the date: all of a bounded set of phones, as in the lists of orders.
  phones := case
    when cardinality(words) > 0 then array(
      select distinct o.customer_phone from public.search_orders(search => list_customers.search, page_size => 500) as o
      where o.customer_phone <> '' and (
        private.without_accents(o.customer_name) like all (words)
        or (char_length(digits) >= 3 and o.customer_phone like '%' || ltrim(digits, '0') || '%')
        or o.customer_phone = private.normalised_phone(left(list_customers.search, 40))
      )
    )
    when list_customers.kind = 'credit' then array(
      select distinct k.customer_phone from public.kept_for_customers(page_size => 1000) as k where k.customer_phone <> ''
    )
    when list_customers.kind = 'blocked' then array(
      select b.phone from public.blocked_phones as b where b.phone is not null order by b.blocked_at desc limit 1000
    )
    else array(
      select distinct newest.customer_phone
      from (select o.customer_phone from public.orders as o order by o.created_at desc, o.id desc limit 5000) as newest
      where newest.customer_phone <> ''
    )
  end;
  return query
    with found as (
      select l.id, l.created_at, l.phone, l.name, s.orders, s.spent_cents, s.credit_cents, private.is_blocked(l.phone) as is_blocked
      from private.last_of_phones(phones) as l
      join private.sums_of_phones(phones) as s on s.phone = l.phone
      where case list_customers.kind
        when 'repeat' then s.orders > 1
        when 'credit' then s.credit_cents > 0
        else true
      end
    ), placed as (
      select f.*, row_number() over (
        order by
          case list_customers.sort when 'name' then lower(f.name) end, case list_customers.sort when '-name' then lower(f.name) end desc,
          case list_customers.sort when 'orders' then f.orders when '-orders' then -f.orders end,
          case list_customers.sort when 'spent' then f.spent_cents when '-spent' then -f.spent_cents end,
          f.created_at desc, f.id desc
      ) as place
      from found as f
      where list_customers.kind is distinct from 'blocked' or f.is_blocked
    )
    select p.id, p.created_at, p.phone, p.name, p.orders, p.spent_cents, p.credit_cents, p.is_blocked
    from placed as p
    where p.place > coalesce((select before.place from placed as before where before.id = list_customers.before_id), 0)
    order by p.place
    limit most;
end
$$;

comment on function public.list_customers is
  'For staff: a page of customers, those with the newest orders first, after the one named by before_created_at and before_id. search: words of the name, or digits of the phone, of the newest 500 orders that it finds. kind: repeat, credit or blocked. sort: name, orders, spent, with - before it for the opposite; by these only the customers of the newest 5,000 orders.';

create or replace function public.customer_page(phone text) returns public.shown_customer
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  wanted constant text := private.normalised_phone(customer_page.phone);
  shown public.shown_customer;
begin
  perform private.expect_staff('orders');
  if wanted is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)');
  end if;
  shown.phone := wanted;
  select (array_agg(o.customer_name order by o.created_at desc, o.id desc))[1],
    (array_agg(o.customer_email order by o.created_at desc, o.id desc) filter (where o.customer_email <> ''))[1],
    count(*) filter (where o.status = 'cancelled'), min(o.created_at)
  into shown.name, shown.email, shown.cancelled, shown.first_order_at
  from private.orders_of_phone(wanted) as o;
  select s.orders, s.spent_cents, s.credit_cents into shown.orders, shown.spent_cents, shown.credit_cents
  from private.sums_of_phones(array[wanted]) as s;
  shown.orders := coalesce(shown.orders, 0);
  shown.spent_cents := coalesce(shown.spent_cents, 0);
  shown.credit_cents := coalesce(shown.credit_cents, 0);
  select n.notes, n.noted_by_email, n.updated_at into shown.notes, shown.notes_by, shown.notes_at
  from public.customer_notes as n where n.phone = wanted;
  select true, b.reason, b.blocked_by_email, b.blocked_at
  into shown.is_blocked, shown.block_reason, shown.blocked_by, shown.blocked_at
  from public.blocked_phones as b where b.person_hash = private.hash_person(wanted);
  shown.is_blocked := coalesce(shown.is_blocked, false);
  return shown;
end
$$;

comment on function public.customer_page is 'For staff: what is known of a phone, in any Kenyan format.';

create or replace function public.note_customer(phone text, notes text, seen_at timestamptz default null) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('orders');
  wanted text := private.read_customer_phone(note_customer.phone);
  words text := private.visible_text(note_customer.notes);
  known public.customer_notes;
begin
  if char_length(words) > 1000 then
    perform private.refuse(400, 'notes_too_long', 'The notes are longer than 1,000 characters');
  end if;
  perform pg_advisory_xact_lock(hashtextextended('notes about ' || wanted, 0));
  select * into known from public.customer_notes as n where n.phone = wanted;
  if known.updated_at is distinct from note_customer.seen_at then
    perform private.refuse(409, 'notes_changed', 'These notes were changed in the meantime. Nothing was saved');
  elsif words is null then
    delete from public.customer_notes as n where n.phone = wanted;
  else
    insert into public.customer_notes as n (phone, notes, noted_by, noted_by_email)
    values (wanted, words, member, private.email_of(member))
    on conflict (phone) do update set
      notes = excluded.notes, noted_by = excluded.noted_by, noted_by_email = excluded.noted_by_email,
      updated_at = greatest(clock_timestamp(), n.updated_at + interval '1 millisecond');
  end if;
end
$$;

comment on function public.note_customer is
  'For staff: sets the notes about a phone, or removes them (blank). seen_at: updated_at of the notes that the member saw; null: none.';

create or replace function public.block_phone(phone text, reason text) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('orders');
  wanted text := private.read_customer_phone(block_phone.phone);
begin
  insert into public.blocked_phones as b (person_hash, phone, reason, blocked_by, blocked_by_email)
  values (
    private.hash_person(wanted), wanted, private.read_reason(block_phone.reason, is_required => true), member, private.email_of(member)
  )
  on conflict (person_hash) do update set
    phone = excluded.phone, reason = excluded.reason, blocked_by = excluded.blocked_by, blocked_by_email = excluded.blocked_by_email,
    blocked_at = now();
end
$$;

comment on function public.block_phone is
  'For staff: a phone cannot place orders on the storefront any more; staff can still enter them. Its present orders stay as they are.';

create or replace function public.unblock_phone(phone text) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  wanted text;
begin
  perform private.expect_staff_member('orders');
  wanted := private.read_customer_phone(unblock_phone.phone);
  delete from public.blocked_phones as b where b.person_hash = private.hash_person(wanted);
end
$$;

comment on function public.unblock_phone is 'For staff: a phone can place orders again. Repeating it changes nothing.';

-- Execution rights
grant execute on function public.list_customers, public.customer_page, public.note_customer, public.block_phone, public.unblock_phone,
  public.nth_order to authenticated, service_role;

create policy "staff read every inquiry" on public.inquiries for select to authenticated using ((select public.may('inquiries')));

create or replace function public.mark_inquiry_read(inquiry_id uuid) returns text
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

create or replace function public.mark_all_inquiries_read(seen_until timestamptz default null) returns integer
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

create or replace function public.search_inquiries(
  search text default '', before_created_at timestamptz default null, before_id uuid default null,
  page_size integer default 50
) returns setof public.inquiries
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff('inquiries');
  found_ids := private.find_by_text(
    'inquiries', $sql$lower(t.name || E'\n' || t.email || E'\n' || coalesce(t.subject, ''))$sql$, 'true',
    search, before_created_at, before_id, page_size
  );
  return query
    select i.* from public.inquiries as i where i.id = any (found_ids) order by i.created_at desc, i.id desc;
end
$$;

comment on function public.search_inquiries is
  'For staff: a page of inquiries whose name, email or subject contains a text, ignoring case; newest first, after the one named by before_created_at and before_id.';

create policy "staff read every subscription" on public.newsletter_subscriptions
  for select to authenticated using ((select public.may('personal_data')));

grant execute on function public.mark_inquiry_read, public.mark_all_inquiries_read, public.search_inquiries
  to authenticated, service_role;

create policy "staff read every answer" on public.inquiry_answers for select to authenticated using ((select public.may('inquiries')));

create or replace function public.answer_inquiry(
  inquiry_id uuid, way text, body text, seen_answered_at timestamptz default null, subject text default null,
  text_body text default null
) returns public.status_change
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  inquiry public.inquiries;
  member constant text := coalesce(private.email_of((select auth.uid())), 'the shop itself');
  added uuid;
  change public.status_change;
begin
  perform private.expect_staff('inquiries');
  select * into inquiry from public.inquiries as i where i.id = answer_inquiry.inquiry_id for update;
  if not found then
    perform private.refuse(404, 'inquiry_not_found', 'This inquiry does not exist any more');
  elsif inquiry.answered_at is distinct from answer_inquiry.seen_answered_at then
    perform private.refuse(409, 'inquiry_answered', 'Someone else answered this in the meantime. Nothing was sent');
  elsif answer_inquiry.text_body is not null and answer_inquiry.way <> 'mail' then
    perform private.refuse(400, 'text_without_mail', 'Only a mail can be sent as a text, too');
  end if;
  added := private.add_answer(inquiry, answer_inquiry.way, answer_inquiry.body, answer_inquiry.subject, member);
  if answer_inquiry.text_body is not null then
    perform private.add_answer(inquiry, 'text', answer_inquiry.text_body, null, member);
  end if;
  update public.inquiries as i set is_read = true, answered_by = member, answered_at = now() where i.id = inquiry.id;
  change := (added, extract(epoch from private.undo_window())::integer, answer_inquiry.way in ('mail', 'text'));
  perform private.note_answer(to_jsonb(change));
  return change;
end
$$;

comment on function public.answer_inquiry is
  'For staff: sends a reply to an inquiry by mail or text after the undo window, as it is written, or notes that it was answered elsewhere, and marks it as read. text_body: the words of a mail that is sent as a text, too. seen_answered_at: of the inquiry as the member read it; it is refused if a colleague was first. change_id: of the answer, for withdraw_answer.';

create or replace function public.withdraw_answer(answer_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
declare
  answer public.inquiry_answers;
  parts uuid[];
  withdrawn integer;
begin
  perform private.expect_staff('inquiries');
  -- The inquiry first, as in answer_inquiry.
  perform from public.inquiries as i
  where i.id = (select a.inquiry_id from public.inquiry_answers as a where a.id = withdraw_answer.answer_id)
  for update;
  select * into answer from public.inquiry_answers as a where a.id = withdraw_answer.answer_id;
  if not found then
    perform private.refuse(404, 'answer_not_found', 'This answer does not exist any more');
  elsif answer.answered_by is distinct from coalesce(private.email_of((select auth.uid())), 'the shop itself') then
    perform private.refuse(403, 'answer_of_colleague', 'Only who answered can undo this');
  elsif answer.answered_at + private.undo_window() < clock_timestamp() then
    perform private.refuse(409, 'answer_too_late', 'It is too late to undo this answer');
  end if;
  -- A mail and its text have the time of their transaction.
  parts := array(
    select a.id from public.inquiry_answers as a where a.inquiry_id = answer.inquiry_id and a.answered_at = answer.answered_at
  );
  if answer.way <> 'elsewhere' then
    delete from public.outbox_messages as m where m.id = any (parts) and m.status = 'waiting' and m.attempts = 0;
    get diagnostics withdrawn = row_count;
    if withdrawn < cardinality(parts) then
      perform private.refuse(409, 'answer_sent', 'This reply is being sent already');
    end if;
  end if;
  delete from public.inquiry_answers as a where a.id = any (parts);
  update public.inquiries as i
  set answered_by = last.answered_by, answered_at = last.answered_at
  from (select) as one
  left join lateral (
    select a.answered_by, a.answered_at from public.inquiry_answers as a
    where a.inquiry_id = answer.inquiry_id order by a.answered_at desc, a.id limit 1
  ) as last on true
  where i.id = answer.inquiry_id;
end
$$;

comment on function public.withdraw_answer is
  'For the staff member who answered an inquiry: withdraws the answer within the undo window, before it is sent, and the text that was sent with a mail. The inquiry stays read.';

create policy "staff read and edit the reply templates" on public.reply_templates
  for all to authenticated using ((select public.may('inquiries'))) with check ((select public.may('inquiries')));

-- Execution rights
grant execute on function public.answer_inquiry, public.withdraw_answer to authenticated, service_role;

create policy "staff read every message" on public.outbox_messages for select to authenticated using ((select public.may('messages')));

create policy "staff read and edit the templates" on public.message_templates
  for all to authenticated using ((select public.may('messages'))) with check ((select public.may('messages')));

create or replace function public.search_messages(
  search text default '', status text default null, channel text default null,
  before_created_at timestamptz default null, before_id uuid default null, page_size integer default 50
) returns setof public.outbox_messages
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff('messages');
  found_ids := private.find_by_text(
    'outbox_messages',
    $sql$lower(t.customer_name || E'\n' || t.recipient || E'\n' || t.order_number || E'\n' || t.tracking_number)$sql$,
    concat_ws(' and ', 'true', 't.status = ' || quote_literal(status), 't.channel = ' || quote_literal(channel)),
    search, before_created_at, before_id, page_size
  );
  return query
    select m.* from public.outbox_messages as m where m.id = any (found_ids) order by m.created_at desc, m.id desc;
end
$$;

comment on function public.search_messages is
  'For staff: a page of messages whose recipient, customer, order or tracking number contains a text, ignoring case; newest first, after the one named by before_created_at and before_id.';

-- Execution rights
grant execute on function public.search_messages to authenticated, service_role;

create or replace function public.send_message_again(message_id uuid) returns public.outbox_messages
language plpgsql security definer set search_path = '' as $$
declare
  again public.outbox_messages;
begin
  perform private.expect_staff('messages');
  update public.outbox_messages as m
  set status = 'waiting', next_attempt_at = now(), give_up_at = now() + interval '1 day', sending_since = null,
      -- Requested by staff, not by a visitor.
      has_priority = true,
      resent_by = coalesce(private.email_of((select auth.uid())), 'the shop itself'),
      updated_at = now()
  where m.id = send_message_again.message_id and m.status in ('failed', 'unsure', 'over_budget')
    -- A message whose recipient was removed cannot be sent.
    and m.recipient <> ''
  returning * into again;
  if not found then
    if not exists (select from public.outbox_messages as m where m.id = send_message_again.message_id) then
      perform private.refuse(404, 'message_not_found', 'This message does not exist any more');
    end if;
    perform private.refuse(409, 'message_not_to_send_again', 'This message is waiting already, or was sent in the meantime');
  end if;
  if private.left_of_budget(again.channel) = 0 then
    perform private.refuse(409, 'message_budget_used_up', format(
      'Today''s budget of %s is used up. Raise it under Settings, or send this tomorrow', again.channel || 's'
    ));
  end if;
  insert into private.outbox_queue (message_id, channel, due_at) values (again.id, again.channel, now());
  return again;
end
$$;

comment on function public.send_message_again is
  'For staff: sends a failed, unsure or over-budget message again, for another day and with the whole daily budget.';

create or replace function public.check_repeat(message_id uuid) returns table (problem text, is_true boolean)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('messages');
  return query
    select private.reason_not_to_repeat(m), private.is_still_true(m) from public.outbox_messages as m where m.id = check_repeat.message_id;
end
$$;

comment on function public.check_repeat is
  'For staff: why a sent message cannot be sent once more (null: it can), and whether what it says is still true.';

create or replace function public.repeat_message(message_id uuid) returns public.outbox_messages
language plpgsql security definer set search_path = '' as $$
declare
  first_id uuid;
  sent public.outbox_messages;
  new_id constant uuid := gen_random_uuid();
  reason text;
begin
  perform private.expect_staff('messages');
  select coalesce(m.repeat_of, m.id) into first_id from public.outbox_messages as m where m.id = repeat_message.message_id;
  -- Of two members who repeat it at once, the second one sees the first one's message.
  perform from public.outbox_messages as m where m.id = first_id for update;
  select * into sent from public.outbox_messages as m where m.id = repeat_message.message_id;
  if not found then
    perform private.refuse(404, 'message_not_found', 'This message does not exist any more');
  end if;
  reason := private.reason_not_to_repeat(sent);
  if reason is not null then
    perform private.refuse(409, 'message_not_to_repeat', format('This message cannot be sent again, because %s', reason));
  elsif private.left_of_budget(sent.channel) = 0 then
    perform private.refuse(409, 'message_budget_used_up', format(
      'Today''s budget of %s is used up. Raise it under Settings, or send this tomorrow', sent.channel || 's'
    ));
  end if;
  insert into public.outbox_messages (
    id, order_id, kind, event_key, channel, recipient, order_number, tracking_number, customer_name, has_priority, is_verbatim,
    subject, body, repeat_of, resent_by
  ) values (
    new_id, sent.order_id, sent.kind, case when sent.order_id is null then sent.event_key else new_id::text end, sent.channel,
    sent.recipient, sent.order_number, sent.tracking_number, sent.customer_name, true, true, sent.subject, sent.body, first_id,
    coalesce(private.email_of((select auth.uid())), 'the shop itself')
  )
  returning * into sent;
  insert into private.outbox_queue (message_id, channel, due_at) values (sent.id, sent.channel, now());
  return sent;
end
$$;

comment on function public.repeat_message is
  'For staff: sends the text of a sent message once more, as a new message that refers to the first (repeat_of), within the daily budget. The screen confirms it, with recipient and text.';

create or replace function public.send_withheld_messages(channel text default null) returns jsonb
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  sent integer;
  withheld bigint;
begin
  perform private.expect_staff('messages');
  with chosen as (
    select m.id
    from (values ('mail'), ('text')) as way (channel)
    cross join lateral (
      select m.id from public.outbox_messages as m
      where m.status = 'over_budget' and m.channel = way.channel and m.recipient <> '' and m.created_at > private.withheld_since()
      order by m.created_at, m.id
      -- Further ones stay withheld, so that they do not fail one by one.
      limit least(private.left_of_budget(way.channel), 1000)
      for update
    ) as m
    where send_withheld_messages.channel is null or way.channel = send_withheld_messages.channel
  ), released as (
    update public.outbox_messages as m
    set status = 'waiting', next_attempt_at = now(), give_up_at = now() + interval '1 day', sending_since = null,
        has_priority = true, resent_by = coalesce(private.email_of((select auth.uid())), 'the shop itself'), updated_at = now()
    from chosen
    where m.id = chosen.id and m.status = 'over_budget'
    returning m.id, m.channel
  ), queued as (
    insert into private.outbox_queue (message_id, channel, due_at) select r.id, r.channel, now() from released as r
    on conflict do nothing
    returning 1
  )
  select count(*) into sent from queued;
  withheld := coalesce(private.withheld_messages(send_withheld_messages.channel), 0);
  if sent = 0 and withheld > 0 then
    perform private.refuse(409, 'message_budget_used_up',
      'Today''s budget is used up. Raise it under Settings, or send these tomorrow');
  end if;
  return jsonb_build_object('sent', sent, 'withheld', withheld);
end
$$;

comment on function public.send_withheld_messages is
  'For staff: sends the withheld messages of the last week, of one channel or both, the oldest first, as far as today''s budgets allow and at most 1,000 per channel. Returns sent, their number, and withheld, the number of those that stay.';

create or replace function public.message_budgets() returns table (
  channel text, sent integer, sent_without_priority integer, per_day integer, over_budget bigint, reason text
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('messages');
  return query
  select way.channel, private.sent_today(way.channel), private.sent_without_priority(way.channel), private.daily_budget(way.channel),
    private.withheld_messages(way.channel), (
      select m.problem from public.outbox_messages as m
      where m.status = 'over_budget' and m.channel = way.channel and m.recipient <> '' and m.created_at > private.withheld_since()
      order by m.created_at desc limit 1
    )
  from (values ('text'), ('mail')) as way (channel);
end
$$;

comment on function public.message_budgets is
  'For staff: per channel the messages sent today, those caused by visitors who have not paid, the daily budget, the withheld messages of the last week that can still be sent, and why the newest is withheld.';

-- Execution rights
grant execute on function public.send_message_again, public.check_repeat, public.repeat_message, public.send_withheld_messages, public.message_budgets to authenticated, service_role;

-- Tests of the mail server and of the text message gateway, sent by staff through the outbox.

create or replace function public.send_test_message(channel text, recipient text) returns public.outbox_messages
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member constant text := coalesce(private.email_of(private.expect_staff_member('settings')), 'A colleague');
  shop constant text := (select s.store_name from public.store_settings as s);
  new_id constant uuid := gen_random_uuid();
  checked text;
  queued public.outbox_messages;
begin
  if send_test_message.channel is null or send_test_message.channel not in ('mail', 'text') then
    perform private.refuse(400, 'channel_unknown', 'A message goes by mail or as a text');
  elsif send_test_message.channel = 'mail' then
    checked := private.visible_text(left(send_test_message.recipient, 255));
    if checked is null or not private.is_email(checked) or char_length(checked) > 254 then
      perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
    end if;
  else
    checked := private.normalised_phone(left(send_test_message.recipient, 40));
    if checked is null then
      perform private.refuse(400, 'phone_invalid', 'Please enter a valid phone number');
    end if;
  end if;
  if private.left_of_budget(send_test_message.channel) = 0 then
    perform private.refuse(409, 'message_budget_used_up', format(
      'Today''s budget of %s is used up. Raise it under Settings, or send this tomorrow', send_test_message.channel || 's'
    ));
  elsif private.count_hit('test_messages', send_test_message.channel, interval '1 hour') > 10 then
    perform private.refuse(429, 'too_many_tests', 'Ten tests were sent within an hour. Please wait before the next one');
  end if;
  insert into public.outbox_messages (
    id, order_id, kind, event_key, channel, recipient, order_number, tracking_number, customer_name, has_priority, is_verbatim,
    subject, body, give_up_at
  ) values (
    new_id, null, 'test_message', new_id::text, send_test_message.channel, checked, '', '', '', true, true,
    case send_test_message.channel when 'mail' then 'Test from ' || shop end,
    case send_test_message.channel
      when 'mail' then format(E'This is a test of the emails of %s. If you read it, customers get theirs, too.\n\nSent from the staff panel by %s.', shop, member)
      else format('%s: this is a test of our text messages.', shop)
    end,
    -- Less than the delay before a second attempt: the answer to the first one is the result.
    now() + interval '20 seconds'
  )
  returning * into queued;
  insert into private.outbox_queue (message_id, channel, due_at) values (queued.id, queued.channel, now());
  return queued;
end
$$;

comment on function public.send_test_message is
  'For staff: sends a test by mail or text to an address or phone, at most ten an hour of each, within the daily budget. It is tried once; the row of the outbox says how it ended.';

-- Execution rights
grant execute on function public.send_test_message to authenticated;

create policy "staff read the requests" on public.personal_data_requests
  for select to authenticated using ((select public.may('personal_data')));

create or replace function public.export_person(identifier text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person record;
  person_key text;
  order_ids uuid[];
  answer jsonb;
begin
  perform private.expect_staff('personal_data');
  select * into person from private.read_person(export_person.identifier);
  person_key := coalesce(person.email, person.phone);
  order_ids := private.orders_of_person(person.email, person.phone);
  answer := jsonb_build_object(
    'identifier', person_key,
    'exported_at', now(),
    'shop', (select s.store_name from public.store_settings as s),
    'orders', array(
      select jsonb_build_object(
        'id', o.id, 'order_number', o.order_number, 'tracking_number', o.tracking_number, 'created_at', o.created_at,
        'status', o.status, 'payment_status', o.payment_status,
        'customer_name', o.customer_name, 'customer_email', o.customer_email, 'customer_phone', o.customer_phone,
        'shipping_address', o.shipping_address, 'city', o.city, 'delivery_notes', o.delivery_notes,
        'delivery_fee', o.delivery_fee, 'discount_code', o.discount_code, 'discount_cents', o.discount_cents,
        'total_amount', o.total_amount,
        'erasure_requested_at', o.erasure_requested_at,
        'reason_to_keep', private.retention_reason(o.id),
        'items', array(
          select jsonb_build_object('product', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
          from public.order_items as i where i.order_id = o.id order by i.position
        ),
        'payments', array(
          select private.describe_payment(p) from public.payments as p where p.order_id = o.id order by p.created_at
        ),
        -- Who delivered is another person's data.
        'delivery', (
          select jsonb_build_object(
            'status', d.delivery_status, 'notes', d.delivery_notes, 'pickup_time', d.pickup_time, 'delivery_time', d.delivery_time
          )
          from public.deliveries as d where d.order_id = o.id
        ),
        'history', array(
          select jsonb_build_object('what', e.kind, 'by', e.actor, 'at', e.happened_at)
          from public.order_events as e where e.order_id = o.id order by e.id
        ),
        'messages', array(
          select private.describe_message(m) from public.outbox_messages as m where m.order_id = o.id order by m.created_at
        )
      )
      from public.orders as o where o.id = any (order_ids) order by o.created_at desc, o.id
    ),
    'payments_for_others', array(
      select private.describe_payment(p)
      from public.payments as p
      where p.phone = person.phone and p.purpose = 'order' and p.order_id <> all (order_ids)
      order by p.created_at
    ),
    'inquiries', array(
      select to_jsonb(i) - '{id,is_read,answered_by,answered_at}'::text[] || jsonb_build_object('answers', array(
        select jsonb_build_object('by', a.way, 'body', a.body, 'answered_at', a.answered_at)
        from public.inquiry_answers as a where a.inquiry_id = i.id order by a.answered_at
      ))
      from public.inquiries as i
      where lower(i.email) = person.email or private.is_phone(i.phone, person.phone)
      order by i.created_at desc
    ),
    'newsletter', (
      select jsonb_build_object('email', n.email, 'created_at', n.created_at, 'confirmed_at', n.confirmed_at)
      from public.newsletter_subscriptions as n where lower(n.email) = person.email
    ),
    'newsletter_mails', array(
      select private.describe_message(m)
      from public.outbox_messages as m where m.order_id is null and m.kind <> 'inquiry_reply' and lower(m.recipient) = person.email order by m.created_at
    ),
    'notes_of_staff', (
      select jsonb_build_object('notes', n.notes, 'updated_at', n.updated_at) from public.customer_notes as n where n.phone = person.phone
    ),
    'blocked', (
      select jsonb_build_object('reason', b.reason, 'blocked_at', b.blocked_at)
      from public.blocked_phones as b where b.person_hash = private.hash_person(person.phone)
    ),
    -- Other phones and email addresses of the same customer, for separate requests.
    'also_used', array(
      select distinct other.identifier
      from public.orders as o
      cross join lateral (values (lower(o.customer_email)), (o.customer_phone)) as other (identifier)
      where o.id = any (order_ids) and other.identifier <> '' and other.identifier <> person_key
      order by other.identifier
    ),
    'earlier_requests', array(
      select jsonb_build_object('kind', r.kind, 'requested_at', r.requested_at, 'counts', r.counts)
      from public.personal_data_requests as r
      where r.person_hash = private.hash_person(person_key) and r.kind = 'erasure'
      order by r.id desc
    )
  );
  perform private.log_personal_data_request('export', person_key, jsonb_build_object(
    'orders', cardinality(order_ids), 'payments_for_others', jsonb_array_length(answer -> 'payments_for_others'),
    'inquiries', jsonb_array_length(answer -> 'inquiries'),
    'newsletter', case when answer ->> 'newsletter' is null then 0 else 1 end
  ));
  return answer;
end
$$;

comment on function public.export_person is
  'For staff: everything stored about a phone (in any Kenyan format) or email address. Amounts in cents. reason_to_keep: why an order cannot be anonymised yet. Logged. Returns jsonb: a document to hand over, which no program reads in whole.';

create or replace function public.erase_person(identifier text) returns public.erasure
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person record;
  person_key text;
  order_ids uuid[];
  closed uuid[];
  erased public.erased_counts;
  postponed public.postponed_order[];
begin
  perform private.expect_staff('personal_data');
  select * into person from private.read_person(erase_person.identifier);
  person_key := coalesce(person.email, person.phone);
  -- Lock the orders first, by id, against deadlocks.
  order_ids := array(
    select o.id from public.orders as o
    where o.id = any (private.orders_of_person(person.email, person.phone)
        || array(select p.order_id from public.payments as p where p.phone = person.phone and p.order_id is not null))
      and o.anonymised_at is null
    order by o.id
    for no key update
  );

  closed := array(
    select o.id from public.orders as o
    where o.id = any (order_ids) and (lower(o.customer_email) = person.email or o.customer_phone = person.phone)
      and private.retention_reason(o.id) is null
  );
  perform private.anonymise_orders(closed);
  erased.orders := cardinality(closed);
  update public.orders as o
  set erasure_requested_at = coalesce(o.erasure_requested_at, now())
  where o.id = any (order_ids) and o.anonymised_at is null
    and (lower(o.customer_email) = person.email or o.customer_phone = person.phone);

  -- This phone may have paid the orders of others. What is left of the orders locked above is open, or another customer's.
  update public.payments as p
  set phone = ''
  where p.phone = person.phone and p.order_id = any (order_ids) and private.retention_reason(p.order_id) is null;
  get diagnostics erased.payments_for_others = row_count;
  update public.order_events as e
  set details = e.details - 'phone'
  where e.order_id = any (order_ids) and e.kind like 'payment\_%' and e.details ->> 'phone' = person.phone
    and private.retention_reason(e.order_id) is null;
  update public.payments as p set phone = ''
  where p.purpose = 'test' and p.phone = person.phone and not private.is_open_attempt(p.status);

  delete from public.inquiries as i where lower(i.email) = person.email or private.is_phone(i.phone, person.phone);
  get diagnostics erased.inquiries = row_count;
  delete from public.newsletter_subscriptions as n where lower(n.email) = person.email;
  get diagnostics erased.newsletter = row_count;

  delete from public.customer_notes as n where n.phone = person.phone;
  -- The phone stays blocked, without being stored.
  update public.blocked_phones as b set phone = null, reason = null where b.person_hash = private.hash_person(person.phone);

  postponed := array(
    select (
      o.id, o.order_number, private.retention_reason(o.id),
      coalesce(lower(o.customer_email) = person.email, o.customer_phone = person.phone, false)
    )::public.postponed_order
    from public.orders as o
    where o.id = any (order_ids) and o.anonymised_at is null and private.retention_reason(o.id) is not null
    order by o.created_at desc
  );
  perform private.log_personal_data_request(
    'erasure', person_key, to_jsonb(erased) || jsonb_build_object('postponed', cardinality(postponed))
  );
  return (person_key, erased, postponed)::public.erasure;
end
$$;

comment on function public.erase_person is
  'For staff: anonymises the orders of a phone or email address, removes the phone from payments of other orders, deletes inquiries, notes of staff and the newsletter subscription; a blocked phone stays blocked as a hash. Open orders are listed with the reason: own ones (is_own) are anonymised once they are closed, others need another request. Logged. M-PESA''s messages stay for store_settings.payment_messages_months.';

-- Execution rights
grant execute on function public.export_person, public.erase_person to authenticated, service_role;

create policy "staff read the page views" on public.page_views for select to authenticated using ((select public.may('figures')));

create policy "staff read every backup" on public.backups for select to authenticated using ((select public.may('settings')));

create or replace function public.daily_figures(days integer default 30) returns table (
  day date, page_views bigint, orders bigint, failed_deliveries bigint
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  today date := private.nairobi_day(now());
  first_day date := today - least(greatest(coalesce(daily_figures.days, 30), 1), 366) + 1;
begin
  perform private.expect_staff('figures');
  return query
  with seen as (
    select v.day, sum(v.views) as count from public.page_views as v where v.day >= first_day group by 1
  ), placed as (
    select t.day, sum(t.orders) as count, sum(t.failed_deliveries) as failed from private.daily_totals as t where t.day >= first_day group by 1
  )
  select d.day::date, coalesce(seen.count, 0)::bigint, coalesce(placed.count, 0)::bigint, coalesce(placed.failed, 0)::bigint
  from generate_series(first_day::timestamp, today::timestamp, interval '1 day') as d (day)
  left join seen on seen.day = d.day::date
  left join placed on placed.day = d.day::date
  order by 1;
end
$$;

comment on function public.daily_figures is
  'For staff: page views, orders and failed deliveries of the last days in Nairobi, including today and days without any.';

create or replace function public.request_backup() returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform private.expect_staff('settings');
  if private.count_hit('backups', 'all', interval '10 minutes') > 5 then
    perform private.refuse(429, 'too_many_backups', 'A backup was just requested. Please wait a few minutes');
  end if;
  perform pg_catalog.pg_notify('backup_requests', '');
end
$$;

comment on function public.request_backup is
  'For staff and the secret key: requests a backup now. Its outcome is a new row of backups.';

create or replace function public.system_status() returns table (
  checked_at timestamptz, last_backup_at timestamptz, last_backup_outcome text, last_attempt_at timestamptz,
  last_attempt_outcome text, last_attempt_problem text, last_payment_answer_at timestamptz, overdue_payments bigint,
  opened_at timestamptz, prompts_paused_since timestamptz
)
language sql stable security definer set search_path = '' as $$
  select private.expect_staff('figures');
  select
    clock_timestamp(),
    made.finished_at,
    made.outcome,
    tried.finished_at,
    tried.outcome,
    tried.problem,
    (select m.received_at from public.payment_messages as m order by m.id desc limit 1),
    (
      select count(*) from public.payments as p
      where p.purpose = 'order' and private.is_open_attempt(p.status) and p.created_at < now() - interval '5 minutes'
    ),
    (select min(a.created_at) from public.admin_profiles as a),
    (select paused.since from private.prompt_pause as paused)
  from (select) as always
  left join lateral (
    select b.finished_at, b.outcome from public.backups as b
    where b.outcome in ('verified', 'readable') order by b.id desc limit 1
  ) as made on true
  left join lateral (select b.* from public.backups as b order by b.id desc limit 1) as tried on true;
$$;

comment on function public.system_status is
  'For staff: the last good backup and the last attempt, the last message of M-PESA, prompts open for more than five minutes, when the first staff account was created, and since when prompts do not work (null: they do).';

create or replace function public.dashboard_figures() returns table (
  products bigint, orders bigint, inquiries bigint, revenue bigint, received bigint, received_this_week bigint,
  received_today bigint
)
language plpgsql stable security definer set search_path = '' as $$
declare
  today date := private.nairobi_day(now());
  monday date := date_trunc('week', today::timestamp)::date;
begin
  perform private.expect_staff('figures');
  return query
  select
    (select coalesce(sum(c.products), 0)::bigint from private.catalogue_counts as c),
    coalesce(sum(t.orders), 0)::bigint,
    (select count(*) from public.inquiries),
    coalesce(sum(t.revenue_cents), 0)::bigint,
    coalesce(sum(t.received_cents), 0)::bigint,
    coalesce(sum(t.received_cents) filter (where t.day >= monday), 0)::bigint,
    coalesce(sum(t.received_cents) filter (where t.day >= today), 0)::bigint
  from private.daily_totals as t;
end
$$;

comment on function public.dashboard_figures is
  'For staff: active products, orders, inquiries, and money in cents. revenue: total of all orders, paid or not (docs/product.md#numbers). received: money for orders minus refunds, by its time; days of Nairobi, weeks from Monday.';

create or replace function public.count_payments_since(since timestamptz default null) returns table (count integer, newest timestamptz)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('panel');
  return query select
    (select count(*)::integer from (
      select from public.payments as p
      where p.completed_at > count_payments_since.since and p.status = 'completed' and p.purpose = 'order'
      limit 101
    ) as bounded),
    (select max(p.completed_at) from public.payments as p where p.status = 'completed' and p.purpose = 'order');
end
$$;

comment on function public.count_payments_since is
  'For staff: the number of orders'' payments that were completed after a time (101: more than 100; 0 for null), and when the newest was completed.';

-- Execution rights
grant execute on function public.request_backup to authenticated, service_role;

grant execute on function public.daily_figures, public.system_status, public.dashboard_figures,
  public.count_payments_since to authenticated;

create policy "staff read who downloaded backups" on public.backup_downloads
  for select to authenticated using ((select public.may('settings')));

create or replace function public.request_backup_check(backup_id bigint) returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform private.expect_staff('settings');
  perform private.backup_with_file(request_backup_check.backup_id);
  if private.count_hit('backups', 'all', interval '10 minutes') > 5 then
    perform private.refuse(429, 'too_many_backups', 'A backup was just requested. Please wait a few minutes');
  end if;
  update public.backups as b set check_requested_at = now() where b.id = request_backup_check.backup_id;
  perform pg_catalog.pg_notify('backup_checks', request_backup_check.backup_id::text);
end
$$;

comment on function public.request_backup_check is
  'For staff and the secret key: requests that a backup is restored once more, as a check. Its outcome is checked_at and check_problem of its row.';

create or replace function public.allow_backup_download(backup_id bigint) returns text
language plpgsql volatile security definer set search_path = '' as $$
declare
  member constant uuid := private.expect_staff_member('settings');
  asked public.backups := private.backup_with_file(allow_backup_download.backup_id);
  token constant text := encode(sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')), 'hex');
begin
  if not private.has_fresh_second_factor() then
    perform private.refuse(403, 'second_factor_needed', 'Please enter the code of your authenticator app first');
  elsif private.count_hit('backup_downloads', 'all', interval '1 hour') > 20 then
    perform private.refuse(429, 'too_many_downloads', 'Backups were downloaded twenty times within an hour. Please wait before the next one');
  end if;
  insert into public.backup_downloads (backup_id, file_name, downloaded_by, downloaded_by_email, token_hash)
  values (
    asked.id, asked.file_name, member, coalesce(private.email_of(member), ''), encode(sha256(convert_to(token, 'UTF8')), 'hex')
  );
  return token;
end
$$;

comment on function public.allow_backup_download is
  'For staff who passed their second factor within five minutes, if they have one: records who downloads a backup, and returns the token of its URL, valid for two minutes.';

-- Execution rights
grant execute on function public.request_backup_check to authenticated, service_role;

grant execute on function public.allow_backup_download to authenticated;

create or replace function public.money_entries(
  since date, until date, after_time timestamptz default null, after_id uuid default null, page_size integer default 1000
) returns setof public.money_entry
language plpgsql stable security definer rows 100 set search_path = '' as $$
begin
  perform private.expect_staff('figures');
  perform private.expect_span(money_entries.since, money_entries.until);
  return query
  select m.id, m.happened_at, m.kind, m.order_id, o.order_number, o.tracking_number, o.customer_name, o.customer_phone, m.receipt,
    m.received_cents, m.refunded_cents, m.kept_cents,
    -- With the first payment that counts: the fees of a file add up.
    case when m.id = (
      select p.id from public.payments as p
      where p.order_id = o.id and p.status = 'completed' and not p.needs_refund
      order by p.completed_at, p.id limit 1
    ) then o.delivery_fee end,
    (select string_agg(i.quantity || ' × ' || i.product_name, ', ' order by i.position) from public.order_items as i where i.order_id = o.id),
    private.email_of(m.member), m.received_from, m.note
  from (
    select page.*
    from private.money_rows(
      greatest(money_entries.since::timestamp at time zone 'Africa/Nairobi', money_entries.after_time),
      (money_entries.until + 1)::timestamp at time zone 'Africa/Nairobi'
    ) as page
    where money_entries.after_time is null or (page.happened_at, page.id) > (money_entries.after_time, money_entries.after_id)
    order by page.happened_at, page.id
    limit least(greatest(coalesce(money_entries.page_size, 1000), 1), 1000)
  ) as m
  cross join lateral (select * from public.orders as own where own.id = m.order_id offset 0) as o
  order by m.happened_at, m.id;
end
$$;

comment on function public.money_entries is
  'For staff: what moved money of orders on the days of a span in Nairobi, the earliest first, at most 1,000 after a row. Amounts in cents; kinds as in private.money_rows. delivery_fee: with the first payment that counts for its order.';

-- Totals

create or replace function public.day_totals(day date) returns table (
  placed bigint, rounding bigint, not_paid bigint, paid_otherwise bigint, other_amounts bigint, received_for_orders bigint,
  paid_other_days bigint, placed_other_days bigint, received bigint, refunded bigint, net_received bigint,
  other_clock bigint, booked bigint, delivery_fees bigint, in_review bigint,
  by_prompt bigint, by_till bigint, in_cash bigint, refunded_by_mpesa bigint, refunded_by_hand bigint, refunded_in_cash bigint,
  kept bigint, paid_with_credit bigint,
  missing_at_mpesa bigint, not_compared bigint, amounts_differ bigint, not_matched bigint, not_ours bigint, returned_unmatched bigint,
  at_mpesa bigint, discounts bigint
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  since timestamptz := day_totals.day::timestamp at time zone 'Africa/Nairobi';
  until timestamptz := (day_totals.day + 1)::timestamp at time zone 'Africa/Nairobi';
begin
  perform private.expect_staff('figures');
  return query
  with orders as (
    select o.total_amount, o.charge_cents, o.delivery_fee, o.discount_cents, o.payment_status <> 'unpaid' as is_paid, money.*
    from public.orders as o
    cross join lateral (
      select count(*) as payments,
        coalesce(sum(p.charge_cents) filter (where p.method <> 'credit'), 0) as cents,
        coalesce(sum(p.charge_cents) filter (where p.method = 'credit'), 0) as credit_cents,
        coalesce(sum(p.charge_cents) filter (where p.method <> 'credit' and p.completed_at >= since and p.completed_at < until), 0) as then_cents
      from public.payments as p where p.order_id = o.id and p.status = 'completed' and p.purpose = 'order'
    ) as money
    where o.created_at >= since and o.created_at < until
  ), by_order as (
    select
      coalesce(sum(o.total_amount), 0) as placed,
      coalesce(sum(o.charge_cents - o.total_amount) filter (where o.is_paid), 0) as rounding,
      -coalesce(sum(o.total_amount) filter (where not o.is_paid), 0) as not_paid,
      -coalesce(sum(o.charge_cents) filter (where o.is_paid and o.payments = 0), 0) as paid_otherwise,
      -coalesce(sum(o.credit_cents), 0) as paid_with_credit,
      coalesce(sum(o.cents + o.credit_cents - case when o.is_paid then o.charge_cents else 0 end) filter (where o.payments > 0), 0) as other_amounts,
      coalesce(sum(o.cents), 0) as received_for_orders,
      coalesce(sum(o.then_cents), 0) as received_then,
      coalesce(sum(o.delivery_fee) filter (where o.is_paid), 0) as delivery_fees,
      coalesce(sum(o.discount_cents) filter (where o.is_paid), 0) as discounts
    from orders as o
  ), by_row as (
    select
      coalesce(sum(m.received_cents), 0) as received,
      coalesce(sum(m.received_cents) filter (where m.kind = 'prompt'), 0) as by_prompt,
      coalesce(sum(m.received_cents) filter (where m.kind = 'till'), 0) as by_till,
      coalesce(sum(m.received_cents) filter (where m.kind = 'cash'), 0) as in_cash,
      -coalesce(sum(m.refunded_cents), 0) as refunded,
      -coalesce(sum(m.refunded_cents) filter (where m.kind = 'refund_by_mpesa'), 0) as refunded_by_mpesa,
      -coalesce(sum(m.refunded_cents) filter (where m.kind in ('refund_by_hand', 'change_by_hand')), 0) as refunded_by_hand,
      -coalesce(sum(m.refunded_cents) filter (where m.kind in ('refund_in_cash', 'change_in_cash')), 0) as refunded_in_cash,
      -coalesce(sum(m.kept_cents), 0) as kept,
      coalesce(sum(m.received_cents) filter (where o.payment_status = 'needs_review'), 0) as in_review,
      -- M-PESA's clock decides the day in the books.
      coalesce(sum(m.received_cents) filter (where t.transacted_at < since or t.transacted_at >= until), 0) as left_day
    from private.money_rows(since, until) as m
    left join lateral (select o.payment_status from public.orders as o where o.id = m.order_id offset 0) as o on m.received_cents > 0
    left join lateral (select t.transacted_at from public.mpesa_transactions as t where t.payment_id = m.payment_id offset 0) as t
      on m.received_cents > 0
  ), other_day as (
    select coalesce(sum(p.charge_cents), 0) as cents
    from public.mpesa_transactions as t
    cross join lateral (select p.* from public.payments as p where p.id = t.payment_id offset 0) as p
    where t.transacted_at >= since and t.transacted_at < until and p.status = 'completed' and p.purpose = 'order'
      and not coalesce(p.completed_at >= since and p.completed_at < until, false)
  ), compared as (
    select r.their_cents, case when r.payment_status = 'completed' then r.our_cents end as our_cents, r.kind, r.resolution
    from private.reconciliation_rows(since, until) as r
  ), at_mpesa as (
    select
      -coalesce(sum(c.our_cents) filter (where c.their_cents is null and c.kind = 'missing_there'), 0) as missing_at_mpesa,
      -coalesce(sum(c.our_cents) filter (where c.their_cents is null and c.kind <> 'missing_there'), 0) as not_compared,
      coalesce(sum(c.their_cents - c.our_cents), 0) as amounts_differ,
      coalesce(sum(c.their_cents) filter (where c.our_cents is null and coalesce(c.resolution, '') not in ('not_an_order', 'refund')), 0) as not_matched,
      coalesce(sum(c.their_cents) filter (where c.our_cents is null and c.resolution = 'not_an_order'), 0) as not_ours,
      coalesce(sum(c.their_cents) filter (where c.our_cents is null and c.resolution = 'refund'), 0) as returned_unmatched,
      coalesce(sum(c.their_cents), 0) as total
    from compared as c
  )
  select
    a.placed, a.rounding, a.not_paid, a.paid_otherwise, a.other_amounts::bigint, a.received_for_orders::bigint,
    (a.received_then - a.received_for_orders)::bigint,
    (b.received - a.received_then)::bigint,
    b.received, b.refunded, b.received + b.refunded,
    c.cents - b.left_day, b.received - b.in_cash + c.cents - b.left_day,
    a.delivery_fees, b.in_review,
    b.by_prompt, b.by_till, b.in_cash, b.refunded_by_mpesa, b.refunded_by_hand, b.refunded_in_cash,
    b.kept::bigint, a.paid_with_credit::bigint,
    d.missing_at_mpesa, d.not_compared, d.amounts_differ, d.not_matched, d.not_ours, d.returned_unmatched, d.total,
    a.discounts
  from by_order as a, by_row as b, other_day as c, at_mpesa as d;
end
$$;

comment on function public.day_totals is
  'For staff: how the totals of a day in Nairobi follow from each other, in cents; steps that take away are negative. by_prompt + by_till + in_cash = received (payments completed on the day); + refunded_by_mpesa + refunded_by_hand + refunded_in_cash (together refunded; change that went back is in them) = net_received, as in dashboard_figures; + kept (owed to customers) is the shop''s own. received - in_cash + other_clock (M-PESA''s time is on another day) = booked, as in reconciliation_days; + missing_at_mpesa + not_compared + amounts_differ + not_matched + not_ours + returned_unmatched (went back without an order) = at_mpesa. placed (orders placed, paid or not) + rounding (to whole shillings) + not_paid + paid_with_credit + paid_otherwise (marked as paid, without a payment) + other_amounts (paid twice, in parts, or in another amount) = received_for_orders, whenever; + paid_other_days + placed_other_days = received. Included: delivery_fees of paid orders, in_review of received. discounts of paid orders: already taken off placed.';

create or replace function public.cash_of_day(day date) returns table (
  member uuid, email text, taken_cents bigint, given_back_cents bigint, expected_cents bigint, handed_over public.handed_over[]
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('figures');
  return query
  select c.member, private.email_of(c.member), c.taken_cents, c.given_back_cents, c.taken_cents - c.given_back_cents, c.handed_over
  from private.cash_by_member(cash_of_day.day) as c
  order by 2, 1;
end
$$;

comment on function public.cash_of_day is
  'For staff: the cash of a day in Nairobi by the member who took it or gave it back. expected_cents: what should be there, without the change that the day began with.';

create policy "staff read every close" on public.day_closes for select to authenticated using ((select public.may('figures')));

create policy "staff read every count" on public.cash_counts for select to authenticated using ((select public.may('figures')));

create or replace function public.close_day(day date, counts jsonb, note text default null) returns public.day_closes
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  closing_member uuid := private.expect_staff_member('figures');
  remark text := private.read_reason(close_day.note);
  counted private.cash_count[];
  wrong private.cash_count;
  outcome record;
begin
  if close_day.day is null or close_day.day > private.nairobi_day(now()) then
    perform private.refuse(400, 'day_in_future', 'This day has not begun yet');
  end if;
  counted := array(select c from private.read_cash_counts(close_day.counts) as c);
  if exists (select from unnest(counted) as c group by c.member having count(*) > 1) then
    perform private.refuse(400, 'counts_invalid', 'The counted cash cannot be read');
  end if;
  select c.* into wrong from unnest(counted) as c
  where c.counted_cents is null or c.counted_cents % 100 <> 0 or abs(c.counted_cents) > 10000000000 limit 1;
  if found then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  end if;
  select c.* into wrong from unnest(counted) as c
  where c.counted_cents <> c.expected_cents and private.visible_length(coalesce(c.reason, '')) not between 3 and 200 limit 1;
  if found then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters', wrong.member::text);
  end if;

  -- One statement: totals and cash are of one moment.
  with closed as (
    insert into public.day_closes (day, totals, note, closed_by, closed_by_email)
    select close_day.day, to_jsonb(t), remark, closing_member, private.email_of(closing_member)
    from public.day_totals(close_day.day) as t
    on conflict (day) do nothing
    returning *
  ), cash as materialized (
    select * from private.cash_by_member(close_day.day)
  ), saved_counts as (
    insert into public.cash_counts (day, member, member_email, taken_cents, given_back_cents, counted_cents, reason)
    select closed.day, cash.member, private.email_of(cash.member), cash.taken_cents, cash.given_back_cents, c.counted_cents, c.reason
    from closed, cash
    join unnest(counted) as c on c.member = cash.member and c.expected_cents = cash.taken_cents - cash.given_back_cents
    returning member
  )
  select closed.*, (select count(*) from saved_counts) = all (array[(select count(*) from cash), cardinality(counted)]) as is_whole
  into outcome from closed;
  if not found then
    perform private.refuse(409, 'day_closed', 'This day is closed already');
  elsif not outcome.is_whole then
    perform private.refuse(409, 'cash_changed', 'The cash of this day was changed in the meantime. Nothing was saved');
  end if;
  return (select d from public.day_closes as d where d.day = outcome.day);
end
$$;

comment on function public.close_day is
  'For staff: closes a day in Nairobi that has begun, once, with the cash that each member counted (private.read_cash_counts): one count for each member of cash_of_day, with the expected amount as seen. Another amount than expected needs a reason. Stores the totals of that moment.';

-- Execution rights
grant execute on function public.money_entries, public.day_totals, public.cash_of_day, public.close_day to authenticated, service_role;

create or replace function public.report(since date, until date) returns public.report
language plpgsql stable security definer set search_path = '' as $$
declare
  span_start timestamptz := report.since::timestamp at time zone 'Africa/Nairobi';
  span_end timestamptz := (report.until + 1)::timestamp at time zone 'Africa/Nairobi';
  answer public.report;
begin
  perform private.expect_staff('figures');
  perform private.expect_span(report.since, report.until);
  with placed as materialized (
    select o.id, o.created_at, o.payment_status = 'paid' as is_sold, o.charge_cents, o.is_collected,
      case when o.payment_status = 'paid' then private.area_of(o.shipping_address, o.city) end as area
    from public.orders as o
    where o.created_at >= span_start and o.created_at < span_end
  ), money as materialized (
    select m.* from private.money_rows(span_start, span_end) as m
  ), placed_by_day as (
    select private.nairobi_day(p.created_at) as day, count(*) as orders, count(*) filter (where p.is_sold) as sold,
      sum(p.charge_cents) filter (where p.is_sold) as cents
    from placed as p group by 1
  ), money_by_day as (
    select private.nairobi_day(m.happened_at) as day, sum(m.received_cents) as received, sum(m.refunded_cents) as refunded
    from money as m group by 1
  ), by_day as (
    select (
      d.day::date, coalesce(p.orders, 0), coalesce(p.sold, 0), coalesce(p.cents, 0),
      coalesce(m.received, 0), coalesce(m.refunded, 0), coalesce(m.received, 0) - coalesce(m.refunded, 0)
    )::public.report_day as line, d.day
    from generate_series(report.since::timestamp, report.until::timestamp, interval '1 day') as d (day)
    left join placed_by_day as p on p.day = d.day::date
    left join money_by_day as m on m.day = d.day::date
  ), by_drink as (
    select (i.product_name, max(own.brand), count(distinct i.order_id), sum(i.quantity), sum(i.quantity::bigint * i.unit_price))::public.report_drink as line
    from placed as p
    -- Lookups by key for each order, with any statistics.
    cross join lateral (select * from public.order_items as i where i.order_id = p.id offset 0) as i
    left join lateral (select d.brand from public.products as d where d.id = i.product_id offset 0) as own on true
    where p.is_sold
    group by i.product_name
  ), by_hour as (
    select (h.hour, count(p.id), coalesce(sum(p.charge_cents), 0))::public.report_hour as line, h.hour
    from generate_series(0, 23) as h (hour)
    left join placed as p on p.is_sold and extract(hour from p.created_at at time zone 'Africa/Nairobi') = h.hour
    where exists (select from placed as any_sold where any_sold.is_sold)
    group by h.hour
  ), area_sums as (
    select case when p.is_collected then 'Collected at the shop' else mode() within group (order by p.area) end as area,
      count(*) as orders, sum(p.charge_cents) as cents
    from placed as p where p.is_sold
    group by p.is_collected, case when not p.is_collected then lower(p.area) end
  ), ranked_areas as (
    select a.*, row_number() over (order by a.orders desc, a.cents desc, a.area) <= 50 as is_listed from area_sums as a
  ), by_area as (
    select (case when a.is_listed then coalesce(a.area, 'Not known any more') else 'All others' end, sum(a.orders), sum(a.cents))::public.report_area as line
    from ranked_areas as a
    group by a.is_listed, case when a.is_listed then coalesce(a.area, 'Not known any more') else 'All others' end
  ), by_rider as (
    select (
      mode() within group (order by trim(d.delivery_person)), count(*), count(*) filter (where d.delivery_status = 'delivered'),
      sum(d.failures), coalesce(sum(cash.cents), 0)
    )::public.report_rider as line
    from placed as p
    cross join lateral (select * from public.deliveries as d where d.order_id = p.id offset 0) as d
    left join lateral (
      select sum(c.charge_cents) as cents
      from (select * from public.payments as c where c.order_id = p.id offset 0) as c
      where c.method = 'cash' and c.status = 'completed' and lower(trim(c.received_from)) = lower(trim(d.delivery_person))
    ) as cash on true
    where d.delivery_person is not null
    group by lower(trim(d.delivery_person))
  ), by_refund as (
    select (m.kind, m.note, count(*), sum(m.refunded_cents))::public.report_refund as line
    from money as m where m.refunded_cents > 0
    group by m.kind, m.note
  ), by_prompt as (
    select (tried.status, case when tried.status = 'failed' then tried.result_code end, count(*))::public.report_prompt as line
    from placed as p
    cross join lateral (select * from public.payments as tried where tried.order_id = p.id offset 0) as tried
    where tried.method = 'prompt' and tried.purpose = 'order'
    group by tried.status, case when tried.status = 'failed' then tried.result_code end
  )
  select
    array(select d.line from by_day as d order by d.day),
    array(select d.line from by_drink as d order by (d.line).units desc, (d.line).cents desc, (d.line).name),
    array(select h.line from by_hour as h order by h.hour),
    array(select a.line from by_area as a order by (a.line).area = 'All others', (a.line).orders desc, (a.line).cents desc, (a.line).area),
    array(select r.line from by_rider as r order by (r.line).orders desc, (r.line).rider),
    array(select r.line from by_refund as r order by (r.line).cents desc, (r.line).kind, (r.line).reason),
    array(select t.line from by_prompt as t order by (t.line).prompts desc, (t.line).status, (t.line).result_code)
  into answer;
  return answer;
end
$$;

comment on function public.report is
  'For staff: the report on up to 367 days in Nairobi. Reads the orders and the money of these days, whatever the size of the shop. Areas: the 50 with the most orders, and all others.';

-- Execution rights
grant execute on function public.report to authenticated, service_role;

create or replace function private.notify_access_change(user_id uuid) returns void
language plpgsql set search_path = '' as $$
begin
  -- No details: screens query the services then. Only the account has its id, which names the topic.
  perform realtime.send('{}'::jsonb, 'access_changed', 'staff-' || notify_access_change.user_id, false);
end
$$;

comment on function private.notify_access_change is
  'Broadcasts access_changed on the live channel staff-{user_id}: a session of the account ended, it is no longer active staff, or its role changed.';

-- A hosted project lets no one drop a trigger of auth.sessions: this function keeps its name.
create or replace function private.announce_access_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.end_push_subscriptions(old.user_id, old.id);
  perform private.notify_access_change(old.user_id);
  return null;
end
$$;

comment on function private.announce_access_change is
  'Trigger of sessions: ends the push subscriptions of a session that ended, and announces its end to the account.';

create or replace function private.after_settings_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if old is distinct from new then
    perform pg_catalog.pg_notify('page_changes', '{"table": "store_settings"}');
  end if;
  perform private.record_price_change(null, null, old.delivery_fee, new.delivery_fee);
  -- The fee stands in the history of prices, a pause in its own.
  perform private.record_audit_event(
    'settings_changed', null,
    to_jsonb(old) - array['updated_at', 'delivery_fee', 'orders_pause_reason', 'orders_paused_until'],
    to_jsonb(new) - array['updated_at', 'delivery_fee', 'orders_pause_reason', 'orders_paused_until']
  );
  if (old.orders_pause_reason, old.orders_paused_until) is distinct from (new.orders_pause_reason, new.orders_paused_until) then
    insert into public.order_pauses (reason, paused_until, changed_by, changed_by_email)
    values (new.orders_pause_reason, new.orders_paused_until, auth.uid(), private.email_of(auth.uid()));
  end if;
  if new.refund_approval_above > old.refund_approval_above and auth.uid() is not null then
    insert into private.refund_limit_raises (raised_by, raised_by_email, raised_from, raised_to)
    values (auth.uid(), private.email_of(auth.uid()), old.refund_approval_above, new.refund_approval_above);
  end if;
  return null;
end
$$;

create or replace function private.staff_emails(area text, except_member uuid default null) returns table (user_id uuid, email text)
language sql stable set search_path = '' as $$
  select profile.user_id, account.email::text
  from public.admin_profiles as profile
  join auth.users as account on account.id = profile.user_id
  where profile.is_active and staff_emails.area = any (private.areas_of(profile.role)) and account.deleted_at is null
    and (account.banned_until is null or account.banned_until <= now())
    and (profile.invited_at is null or account.email_confirmed_at is not null)
    and profile.user_id is distinct from staff_emails.except_member and account.email <> ''
  order by profile.created_at, profile.user_id
  limit 50;
$$;

comment on function private.staff_emails is 'Active staff with an email address whose role has the area, without except_member.';

create or replace function private.queue_staff_message(kind text, event_key text, except_member uuid default null) returns void
language plpgsql set search_path = '' as $$
begin
  -- Against an incident that begins and ends again and again, or refunds requested in bulk.
  if private.count_hit('staff_messages', queue_staff_message.kind, interval '1 hour') > 20 then
    return;
  end if;
  with queued as (
    insert into public.outbox_messages (
      order_id, kind, event_key, channel, recipient, order_number, tracking_number, customer_name, has_priority
    )
    select null, template.kind, queue_staff_message.event_key, template.channel, staff.email, '', '', '', true
    from private.staff_emails(
      case queue_staff_message.kind when 'refund_to_approve' then 'approvals' else 'orders' end, queue_staff_message.except_member
    ) as staff
    join public.message_templates as template
      on template.kind = queue_staff_message.kind and template.channel = 'mail' and template.is_on
    returning id, channel
  )
  insert into private.outbox_queue (message_id, channel, due_at) select queued.id, queued.channel, now() from queued;
exception when others then
  -- Its cause stays valid without the message.
  raise warning 'no message % to staff could be put into the outbox: %', queue_staff_message.kind, sqlerrm;
end
$$;

comment on function private.queue_staff_message is
  'Mails active staff whom a message concerns, except except_member, at most 20 times an hour per kind: those who may approve refunds, or take orders. Callers call it once per event. Never fails.';

create or replace function public.refund_approvers() returns table (email text)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('refunds');
  return query select staff.email from private.staff_emails('approvals', (select auth.uid())) as staff;
end
$$;

comment on function public.refund_approvers is
  'For staff: the email addresses of the other active owners, who can approve a refund that the caller requested.';

-- Execution rights
grant execute on function public.refund_approvers to authenticated;

create policy "staff read every notice" on public.notices for select to authenticated using ((select public.may('panel')));

create or replace function private.notice_area(kind text) returns text
language sql immutable
return case kind when 'inquiry' then 'inquiries' when 'refund_to_approve' then 'approvals' else 'deliveries' end;

comment on function private.notice_area is 'The area that a role must have to get a notice (private.areas_of).';

create or replace function public.waiting_notices() returns table (
  id uuid, kind text, event_key text, order_id uuid, created_at timestamptz, facts jsonb
)
language plpgsql stable security definer rows 20 set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('panel');
  return query
    select n.id, n.kind, n.event_key, n.order_id, n.created_at, private.notice_facts(n)
    from (
      select * from public.notices as recent where recent.created_at > now() - interval '1 day'
      order by recent.created_at desc limit 500
    ) as r
    cross join lateral (select * from public.notices as own where own.id = r.id) as n
    where n.caused_by is distinct from (select auth.uid()) and private.is_notice_waiting(n)
      and ((select auth.role()) = 'service_role' or public.may(private.notice_area(n.kind)))
    order by n.created_at desc;
end
$$;

comment on function public.waiting_notices is
  'For staff: which of the newest 500 notices of the last day nobody has dealt with, the newest first, without those that the caller caused or whose area the caller''s role lacks.';

create or replace function public.push_public_key() returns text
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('panel');
  return (select k.public_key from private.push_keys as k);
end
$$;

comment on function public.push_public_key is
  'For staff: the public VAPID key with which a browser subscribes, in base64url. Null until the shop has started once.';

create or replace function public.save_push_subscription(endpoint text, p256dh text, auth_secret text, device text, kinds text[]) returns uuid
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member constant uuid := private.expect_staff_member('panel');
  saved uuid;
begin
  if not coalesce(
    save_push_subscription.endpoint ~ '^https://[^/?#@[:space:]]+/[^[:space:]]*$' and char_length(save_push_subscription.endpoint) <= 1000
    and save_push_subscription.p256dh ~ '^B[A-Za-z0-9_-]{86}$' and save_push_subscription.auth_secret ~ '^[A-Za-z0-9_-]{22}$', false
  ) then
    perform private.refuse(400, 'push_subscription_invalid', 'The shop cannot send notices to this browser');
  end if;
  -- Two devices that subscribe at once count one after the other.
  perform pg_advisory_xact_lock(hashtextextended('push subscriptions of ' || member, 0));
  if 10 <= (
    select count(*) from public.push_subscriptions as s where s.user_id = member and s.endpoint <> save_push_subscription.endpoint
  ) then
    perform private.refuse(409, 'too_many_devices', 'Ten of your devices get notices already. Please remove one first');
  end if;
  insert into public.push_subscriptions as s (user_id, session_id, endpoint, p256dh, auth_secret, device, kinds)
  values (
    member, ((select auth.jwt()) ->> 'session_id')::uuid, save_push_subscription.endpoint, save_push_subscription.p256dh,
    save_push_subscription.auth_secret, left(coalesce(private.visible_text(save_push_subscription.device), 'An unknown device'), 80),
    array(select known from unnest(private.notice_kinds()) as known where known = any (save_push_subscription.kinds))
  )
  -- The browser belongs to the member who is signed in.
  on conflict on constraint "a browser has one push subscription" do update
  set user_id = excluded.user_id, session_id = excluded.session_id, p256dh = excluded.p256dh, auth_secret = excluded.auth_secret,
      device = excluded.device, kinds = excluded.kinds, failures = 0
  returning s.id into saved;
  return saved;
end
$$;

comment on function public.save_push_subscription is
  'For staff: lets the calling member''s browser receive notices of some kinds by Web Push, until the session ends. At most 10 devices per member.';

create or replace function public.lease_pushes(at_most integer default 20) returns table (
  id bigint, lease uuid, endpoint text, p256dh text, auth_secret text, notice_id uuid, kind text, event_key text, order_id uuid,
  seconds_to_live integer, facts jsonb
)
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  due bigint[];
begin
  perform private.add_notice('late_order', late.order_id::text, late.order_id) from private.newly_late_orders() as late (order_id);
  due := array(
    select q.id from private.push_queue as q
    where q.due_at <= now()
    order by q.due_at
    limit least(greatest(coalesce(lease_pushes.at_most, 20), 1), 100)
    for update skip locked
  );
  delete from private.push_queue as q
  using public.notices as n, public.push_subscriptions as s
  where q.id = any (due) and n.id = q.notice_id and s.id = q.subscription_id and not (
    n.created_at > now() - private.notice_lifetime(n.kind) and private.is_notice_waiting(n)
    and exists (
      select from public.admin_profiles as profile
      join auth.users as account on account.id = profile.user_id
      where profile.user_id = s.user_id and profile.is_active and private.notice_area(n.kind) = any (private.areas_of(profile.role))
        and account.deleted_at is null
        and (account.banned_until is null or account.banned_until <= now())
    )
  );
  return query
  with taken as (
    update private.push_queue as q
    set due_at = now() + interval '1 minute', lease = gen_random_uuid(), attempts = q.attempts + 1
    where q.id = any (due)
    returning q.id, q.lease, q.notice_id, q.subscription_id
  )
  select taken.id, taken.lease, s.endpoint, s.p256dh, s.auth_secret, n.id, n.kind, n.event_key, n.order_id,
    greatest(60, extract(epoch from n.created_at + private.notice_lifetime(n.kind) - now()))::integer, private.notice_facts(n)
  from taken
  join public.push_subscriptions as s on s.id = taken.subscription_id
  join public.notices as n on n.id = taken.notice_id;
end
$$;

comment on function public.lease_pushes is
  'Adds notices of orders that are late now. Then leases due pushes for a minute, without those whose notice was dealt with, is too old or is for a member who is no longer active or whose role lacks its area. A push whose process ended is leased again; its device replaces the earlier notification. seconds_to_live: how long the push service may retain it. facts: see notice_facts.';

-- Execution rights
grant execute on function public.waiting_notices, public.push_public_key, public.save_push_subscription to authenticated;

grant execute on function public.waiting_notices, public.push_public_key to service_role;

grant execute on function public.read_push_keys, public.store_push_keys, public.lease_pushes, public.finish_push to service_role;

-- The team: invitations, roles, access, and who changed what (docs/decisions/roles.md).

create table public.audit_events (
  id bigint generated always as identity primary key,
  kind text not null,
  actor_id uuid,
  actor_email text,
  subject text,
  before jsonb,
  after jsonb,
  happened_at timestamptz not null default clock_timestamp(),
  constraint "an audited change is known" check (kind in (
    'member_invited', 'member_changed', 'member_removed', 'second_factor_reset', 'settings_changed'
  ))
);

comment on table public.audit_events is
  'Changes of the team and of the settings, with the changed values only. Append-only. search_audit adds the histories that other tables keep. actor_email: the email address at that time. subject: the member.';

alter table public.audit_events enable row level security;

revoke all on public.audit_events from anon, authenticated, service_role;

grant select on public.audit_events to authenticated, service_role;

create policy "owners read the audit" on public.audit_events for select to authenticated using ((select public.may('team')));

create trigger audit_events_before_change before update or delete on public.audit_events
  for each row execute function private.refuse_change('The audit is only added to');

create trigger audit_events_before_truncate before truncate on public.audit_events
  for each statement execute function private.refuse_change('The audit is only added to');

create or replace function private.record_audit_event(kind text, subject text, before jsonb, after jsonb, actor uuid default auth.uid()) returns void
language plpgsql set search_path = '' as $$
declare
  -- A change says what differs; what begins or ends, all of it.
  changed text[] := array(
    select known.key from jsonb_object_keys(coalesce(before, after, '{}')) as known (key)
    where before is null or after is null or before -> known.key is distinct from after -> known.key
  );
  pick_before jsonb := (select jsonb_object_agg(e.key, e.value) from jsonb_each(before) as e where e.key = any (changed));
  pick_after jsonb := (select jsonb_object_agg(e.key, e.value) from jsonb_each(after) as e where e.key = any (changed));
begin
  if before is not null and after is not null and cardinality(changed) = 0 then
    return;
  end if;
  insert into public.audit_events (kind, actor_id, actor_email, subject, before, after)
  values (
    record_audit_event.kind, record_audit_event.actor, private.email_of(record_audit_event.actor), record_audit_event.subject,
    pick_before, pick_after
  );
end
$$;

comment on function private.record_audit_event is 'Adds a change to the audit, with the values that differ. Without a difference it adds nothing.';

create or replace function private.active_owners() returns table (user_id uuid)
language sql stable set search_path = '' as $$
  select profile.user_id
  from public.admin_profiles as profile
  join auth.users as account on account.id = profile.user_id
  where profile.role = 'owner' and profile.is_active and account.deleted_at is null
    and (account.banned_until is null or account.banned_until <= now())
    and (profile.invited_at is null or account.email_confirmed_at is not null);
$$;

comment on function private.active_owners is 'Owners who can sign in. Who was invited and has not accepted is none.';

create or replace function private.after_profile_change() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  before jsonb := case when tg_op <> 'INSERT' then jsonb_build_object('role', old.role, 'name', old.name, 'is_active', old.is_active) end;
  after jsonb := case when tg_op <> 'DELETE' then jsonb_build_object('role', new.role, 'name', new.name, 'is_active', new.is_active) end;
begin
  perform private.record_audit_event(
    case tg_op when 'INSERT' then 'member_invited' when 'DELETE' then 'member_removed' else 'member_changed' end,
    coalesce(private.email_of(coalesce(new.user_id, old.user_id)), old.name), before, after,
    coalesce(auth.uid(), case when tg_op = 'INSERT' then new.invited_by end)
  );
  if tg_op <> 'INSERT' and old.is_active and not coalesce(new.is_active, false) then
    perform private.end_push_subscriptions(old.user_id);
    perform private.notify_access_change(old.user_id);
  elsif tg_op = 'UPDATE' and old.role <> new.role then
    perform private.notify_access_change(old.user_id);
  end if;
  -- The secret key may do everything. Two owners who take each other's role away at once come one after the other.
  if tg_op <> 'INSERT' and old.role = 'owner' and old.is_active and auth.uid() is not null then
    perform pg_advisory_xact_lock(hashtextextended('owners of the shop', 0));
    if not exists (select from private.active_owners()) then
      perform private.refuse(409, 'last_owner', 'At least one active owner must remain. Make another member an owner first');
    end if;
  end if;
  return null;
end
$$;

create trigger profiles_after_change after insert or delete or update of role, name, is_active on public.admin_profiles
  for each row execute function private.after_profile_change();

create or replace function public.team() returns table (
  user_id uuid, email text, name text, role text, is_active boolean, is_invited boolean, invited_at timestamptz,
  created_at timestamptz, last_seen_at timestamptz, second_factors integer
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('team');
  return query
    select profile.user_id, account.email::text, profile.name, profile.role, profile.is_active,
      profile.invited_at is not null and account.email_confirmed_at is null, profile.invited_at, profile.created_at,
      coalesce((
        select max(coalesce(session.refreshed_at, session.created_at)) from auth.sessions as session
        where session.user_id = profile.user_id
      ), account.last_sign_in_at),
      (select count(*)::integer from auth.mfa_factors as factor
       where factor.user_id = profile.user_id and factor.status = 'verified')
    from public.admin_profiles as profile
    join auth.users as account on account.id = profile.user_id
    order by not profile.is_active, lower(coalesce(nullif(profile.name, ''), account.email::text)), profile.user_id;
end
$$;

comment on function public.team is
  'For owners: all members, active ones first. is_invited: the invitation was not accepted yet. last_seen_at: when a session was last renewed, or the last sign-in.';

create or replace function private.lock_member(member_id uuid, caller uuid) returns public.admin_profiles
language plpgsql set search_path = '' as $$
declare
  locked public.admin_profiles;
begin
  select * into locked from public.admin_profiles as profile where profile.user_id = lock_member.member_id for update;
  if not found then
    perform private.refuse(404, 'member_not_found', 'This member does not exist any more');
  elsif lock_member.member_id = lock_member.caller then
    perform private.refuse(409, 'own_access', 'Another owner changes your role and your access');
  end if;
  return locked;
end
$$;

create or replace function private.read_role(role text) returns text
language plpgsql immutable set search_path = '' as $$
begin
  if private.areas_of(role) is null then
    perform private.refuse(400, 'role_unknown', 'A role is owner, staff or counter');
  end if;
  return role;
end
$$;

create or replace function private.read_member_name(name text) returns text
language plpgsql immutable set search_path = '' as $$
declare
  shown text := coalesce(private.visible_text(left(name, 200)), '');
begin
  if char_length(shown) not between 1 and 60 or private.has_control_characters(shown) then
    perform private.refuse(400, 'member_name_invalid', 'A name has 1 to 60 characters');
  end if;
  return shown;
end
$$;

create or replace function public.change_member(
  member_id uuid, role text default null, name text default null, is_active boolean default null
) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  caller constant uuid := private.expect_staff_member('team');
  changed public.admin_profiles;
begin
  -- One's own name is no question of access.
  if change_member.member_id = caller and change_member.role is null and change_member.is_active is null then
    update public.admin_profiles as p set name = private.read_member_name(change_member.name) where p.user_id = caller;
    return;
  end if;
  changed := private.lock_member(change_member.member_id, caller);
  update public.admin_profiles as p
  set role = case when change_member.role is null then changed.role else private.read_role(change_member.role) end,
      name = case when change_member.name is null then changed.name else private.read_member_name(change_member.name) end,
      is_active = coalesce(change_member.is_active, changed.is_active)
  where p.user_id = changed.user_id;
  if change_member.is_active = false then
    delete from auth.sessions as session where session.user_id = changed.user_id;
  end if;
end
$$;

comment on function public.change_member is
  'For owners: another role, name or access of a member; null leaves it as it is. Without access all sessions of the member end. Of their own row owners change the name only.';

create or replace function public.reset_second_factor(member_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
declare
  caller constant uuid := private.expect_staff_member('team');
  changed public.admin_profiles := private.lock_member(reset_second_factor.member_id, caller);
begin
  delete from auth.mfa_factors as factor where factor.user_id = changed.user_id and factor.status = 'verified';
  if not found then
    perform private.refuse(409, 'no_second_factor', 'This member has no second factor');
  end if;
  delete from auth.sessions as session where session.user_id = changed.user_id;
  perform private.record_audit_event('second_factor_reset', private.email_of(changed.user_id), null, null);
end
$$;

comment on function public.reset_second_factor is
  'For owners: removes the authenticator apps of another member who has lost them, and ends all sessions of the member. The password stays.';

create or replace function public.check_invitation(email text, role text, name text) returns void
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('team');
  perform private.read_role(check_invitation.role), private.read_member_name(check_invitation.name);
  if not private.is_email(trim(check_invitation.email)) then
    perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
  elsif exists (
    select from auth.users as account
    left join public.admin_profiles as profile on profile.user_id = account.id
    where lower(account.email::text) = lower(trim(check_invitation.email)) and account.deleted_at is null
      and (account.email_confirmed_at is not null or (profile.user_id is not null and profile.invited_at is null))
  ) then
    perform private.refuse(409, 'email_has_account', 'This address has an account already. Members who left are readmitted in the list');
  end if;
end
$$;

comment on function public.check_invitation is
  'For owners, by the function that invites: refuses an invitation of an address that has an account, or with an invalid name or role.';

create or replace function public.record_invitation(member_id uuid, role text, name text, invited_by uuid) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
begin
  insert into public.admin_profiles as p (user_id, role, name, invited_at, invited_by)
  values (
    record_invitation.member_id, private.read_role(record_invitation.role), private.read_member_name(record_invitation.name),
    now(), record_invitation.invited_by
  )
  on conflict (user_id) do update
  set invited_at = excluded.invited_at, invited_by = excluded.invited_by, role = excluded.role, name = excluded.name, is_active = true
  where p.invited_at is not null;
end
$$;

comment on function public.record_invitation is
  'Makes an invited account staff, with its role and name. Again for an invitation that is sent again.';

create or replace function public.withdraw_invitation(member_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
declare
  caller constant uuid := private.expect_staff_member('team');
  withdrawn public.admin_profiles := private.lock_member(withdraw_invitation.member_id, caller);
begin
  if withdrawn.invited_at is null
    or exists (select from auth.users as account where account.id = withdrawn.user_id and account.email_confirmed_at is not null)
  then
    perform private.refuse(409, 'invitation_accepted', 'This invitation was accepted already. Take the access away instead');
  end if;
  delete from public.admin_profiles as profile where profile.user_id = withdrawn.user_id;
  delete from auth.users as account where account.id = withdrawn.user_id;
end
$$;

comment on function public.withdraw_invitation is 'For owners: withdraws an invitation that was not accepted. Its link does not work any more.';

create or replace function public.staff_names() returns table (email text, name text)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('panel');
  return query
    select account.email::text, profile.name
    from public.admin_profiles as profile
    join auth.users as account on account.id = profile.user_id
    where profile.name <> '' and account.email <> '';
end
$$;

comment on function public.staff_names is 'For staff: the names of all present and former members who have one, by the email address that histories store.';

create or replace function public.search_audit(
  area text default null, person text default null, from_day date default null, until_day date default null,
  before_created_at timestamptz default null, before_id text default null, page_size integer default 50
) returns setof public.audit_row
language plpgsql stable security definer rows 50 set search_path = '' as $$
#variable_conflict use_column
declare
  wanted constant text := nullif(search_audit.area, '');
  by_whom constant text := nullif(search_audit.person, '');
  since constant timestamptz := coalesce(search_audit.from_day::timestamp at time zone 'Africa/Nairobi', '-infinity');
  until constant timestamptz := coalesce((search_audit.until_day + 1)::timestamp at time zone 'Africa/Nairobi', 'infinity');
  upto constant timestamptz := coalesce(search_audit.before_created_at, 'infinity');
  most constant integer := least(greatest(coalesce(search_audit.page_size, 50), 1), 1000);
begin
  perform private.expect_staff('team');
  -- Each history is read from its newest row, no further than a page.
  return query
    select (found).* from (
      (select ('change-' || e.id, e.happened_at, case e.kind when 'settings_changed' then 'settings' else 'team' end,
          e.kind, e.actor_id, e.actor_email, e.subject, e.before, e.after)::public.audit_row as found
        from public.audit_events as e
        where (wanted is null or wanted = case e.kind when 'settings_changed' then 'settings' else 'team' end)
          and (by_whom is null or e.actor_email = by_whom) and e.happened_at >= since and e.happened_at < until
          and (e.happened_at, 'change-' || e.id) < (upto, coalesce(search_audit.before_id, ''))
        order by e.happened_at desc, 'change-' || e.id desc limit most)
      union all
      (select ('price-' || p.id, p.changed_at, 'prices', 'price_changed', p.changed_by, p.changed_by_email,
          coalesce(p.product_name, 'Delivery fee'),
          jsonb_build_object('price', p.from_cents), jsonb_build_object('price', p.to_cents))::public.audit_row
        from public.price_changes as p
        where (wanted is null or wanted = 'prices')
          and (by_whom is null or p.changed_by_email = by_whom) and p.changed_at >= since and p.changed_at < until
          and (p.changed_at, 'price-' || p.id) < (upto, coalesce(search_audit.before_id, ''))
        order by p.changed_at desc, 'price-' || p.id desc limit most)
      union all
      (select ('refund-' || r.id, r.created_at, 'refunds', case when r.method = 'reversal' then 'refund_requested' else 'refund_noted' end,
          r.requested_by, r.requested_by_email, coalesce(r.receipt, r.refund_receipt, case r.method when 'credit' then 'From credit' else 'In cash' end), null,
          jsonb_build_object('refund', r.refund_cents, 'reason', r.reason))::public.audit_row
        from public.refunds as r
        where (wanted is null or wanted = 'refunds') and r.requested_by is not null
          and (by_whom is null or r.requested_by_email = by_whom) and r.created_at >= since and r.created_at < until
          and (r.created_at, 'refund-' || r.id) < (upto, coalesce(search_audit.before_id, ''))
        order by r.created_at desc, 'refund-' || r.id desc limit most)
      union all
      (select ('approval-' || r.id, r.approved_at, 'refunds', 'refund_approved', r.approved_by, r.approved_by_email,
          coalesce(r.receipt, 'In cash'), null,
          jsonb_build_object('refund', r.refund_cents, 'alone', case when r.approved_alone then true end))::public.audit_row
        from public.refunds as r
        where (wanted is null or wanted = 'refunds') and r.approved_at is not null
          and (by_whom is null or r.approved_by_email = by_whom) and r.approved_at >= since and r.approved_at < until
          and (r.approved_at, 'approval-' || r.id) < (upto, coalesce(search_audit.before_id, ''))
        order by r.approved_at desc, 'approval-' || r.id desc limit most)
      union all
      (select ('decision-' || d.id, d.happened_at, 'reconciliation', d.kind, d.actor_id, d.actor_email,
          coalesce(d.receipt, 'A payment'), null, jsonb_build_object('note', d.note))::public.audit_row
        from public.reconciliation_events as d
        -- Refunds have their own rows.
        where (wanted is null or wanted = 'reconciliation') and d.kind <> 'refund' and d.actor_id is not null
          and (by_whom is null or d.actor_email = by_whom) and d.happened_at >= since and d.happened_at < until
          and (d.happened_at, 'decision-' || d.id) < (upto, coalesce(search_audit.before_id, ''))
        order by d.happened_at desc, 'decision-' || d.id desc limit most)
    ) as history
    order by (found).created_at desc, (found).id desc
    limit most;
end
$$;

comment on function public.search_audit is
  'For owners: who changed what, newest first, after the row named by before_created_at and before_id: team, settings, prices, refunds, reconciliation (area). person: the email address that the histories store. Days of Nairobi.';

-- Execution rights
grant execute on function public.team, public.change_member, public.reset_second_factor, public.check_invitation,
  public.withdraw_invitation, public.staff_names, public.search_audit to authenticated;

grant execute on function public.record_invitation to service_role;

create or replace function public.settle_write(write_id uuid) returns table (is_saved boolean, answer jsonb)
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform private.expect_staff('panel');
  -- Waits for the request if it is still running.
  insert into private.staff_writes (id, is_withdrawn) values (settle_write.write_id, true) on conflict do nothing;
  return query select not w.is_withdrawn, w.answer from private.staff_writes as w where w.id = settle_write.write_id;
end
$$;

comment on function public.settle_write is
  'For staff: whether a request whose answer was lost was saved, by its x-write-id. If not, it is withdrawn: it is refused should it still arrive, so that it can be repeated safely. answer: what it returned, where that was kept. One row.';

-- Execution rights
grant execute on function public.settle_write to authenticated, service_role;
