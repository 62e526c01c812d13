drop function private.count_along_index(text,text);

drop function private.list_conditions(private.list_filters);

drop function private.statement_coverage();

drop index public.payments_by_completion;

drop index public.products_by_category;

create index products_by_category on public.products (category, created_at desc, id desc);

create index products_by_part_of_their_name on public.products using gin (lower(name) extensions.gin_trgm_ops) with (fastupdate = off);

create or replace function public.product_and_related(product_slug text, related_limit integer default 3) returns setof public.products
language sql stable
set search_path = ''
-- Scans an index in its order and stops early, with any statistics.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
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

create or replace function public.shop_page(
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
          'image_url', p.image_url, 'category', p.category, 'brand', p.brand, 'stock_quantity', p.stock_quantity
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
  'What the shop page shows. Up to 60 active products are all given, newest first, with the slugs that a search found, best first. Of more products, 60 per page that match the search, brand and flavour, in the order of sort; if none does, the newest 12. most_cents: the highest price that the search names. count: products that match; may_be_more: the search has reached its 250 best matches.';

create or replace function public.typical_price() returns integer
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return (
    select percentile_disc(0.5) within group (order by p.price)
    from (select n.price from public.products as n where n.is_active order by n.created_at desc, n.id limit 200) as p
  );
end
$$;

comment on function public.typical_price is 'For staff: the median price of the newest 200 active products in cents. Null without products.';

create or replace function public.find_products(
  search text default '', category text default null,
  before_created_at timestamptz default null, before_id uuid default null, page_size integer default 50
) returns setof public.products
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff();
  found_ids := private.find_by_text(
    'products', 'lower(t.name)', coalesce('t.category = ' || quote_literal(find_products.category), 'true'),
    find_products.search, find_products.before_created_at, find_products.before_id, find_products.page_size
  );
  return query
    select p.* from public.products as p where p.id = any (found_ids) order by p.created_at desc, p.id desc;
end
$$;

comment on function public.find_products is
  'For staff: a page of products, hidden ones included, whose name contains a text, ignoring case; newest first, after the one named by before_created_at and before_id.';

create or replace function public.list_categories() returns table (id uuid, name text, is_active boolean, products integer)
language plpgsql stable security definer set search_path = '' set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
begin
  perform private.expect_staff();
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
grant execute on function public.find_products, public.list_categories to authenticated, service_role;

grant execute on function public.product_and_related, public.home_products, public.shop_page
  to anon, authenticated, service_role;

grant execute on function public.staff_settings, public.typical_price to authenticated, service_role;

create or replace function private.meaning_of(phrase text) returns text
language sql stable set search_path = '' set enable_indexscan = on set enable_indexonlyscan = on as $$
  select case
    when s.means = '' or exists (
      select from string_to_table(s.means, ' ') as meant (word)
      join public.search_synonyms as other on other.stem = private.stem_text(meant.word)
      where other.means = ''
    ) then ''
    else s.means
  end
  from public.search_synonyms as s
  where s.stem = private.stem_text(phrase);
$$;

comment on function private.meaning_of is
  'Meaning of a folded phrase: words of the catalogue; empty for every drink; null if it is no synonym. A synonym may refer to another one for every drink.';

create or replace function public.search_products(search text default '', page_size integer default 50) returns setof public.products
language plpgsql stable security definer rows 50
set search_path = ''
set enable_seqscan = off
set jit = off
as $$
declare
  terms private.search_terms := private.read_search(nullif(trim(search_products.search), ''));
  found_ids uuid[] := private.found_products(terms, least(greatest(coalesce(search_products.page_size, 50), 1), 1000));
begin
  return query
    select p.*
    from unnest(found_ids) with ordinality as f (id, place)
    -- With an offset these stay lookups by key.
    cross join lateral (select * from public.products as p where p.id = f.id and p.is_active offset 0) as p
    order by f.place;
end
$$;

comment on function public.search_products is
  'Active products that match a search, best first: in name, flavour, brand, tagline and description, with synonyms, word beginnings and typing errors. A blank search returns the newest. Reads 100 characters and 10 words; returns 1 to 1000 rows.';

-- Execution rights
grant execute on function public.search_products, public.correct_search to anon, authenticated, service_role;

-- Execution rights
grant execute on function public.place_order to anon, authenticated, service_role;

create or replace function private.return_units(order_id uuid) returns void
language plpgsql set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  product_ids uuid[] := array(select i.product_id from public.order_items as i where i.order_id = return_units.order_id);
begin
  -- Lock products by id, so that two orders of the same products cannot deadlock.
  perform from public.products as p where p.id = any (product_ids) order by p.id for update;
  update public.products as p
  set stock_quantity = p.stock_quantity
    + (select sum(i.quantity) from public.order_items as i where i.order_id = return_units.order_id and i.product_id = p.id)
  where p.id = any (product_ids);
end
$$;

comment on function private.return_units is 'Returns an order''s units to stock. The caller has locked the order.';

create or replace function private.due_end(ended public.orders) returns text
language plpgsql stable set search_path = '' set enable_bitmapscan = on set enable_sort = on as $$
declare
  is_prompted boolean;
begin
  if ended.payment_status <> 'unpaid' or ended.status not in ('pending', 'cancelled') then
    return null;
  end if;
  if exists (select from public.payments as p where p.order_id = ended.id and p.status = 'review') then
    return null;
  end if;
  is_prompted := coalesce(ended.expiry_limit > now(), true) and exists (
    select from public.payments as p where p.order_id = ended.id and p.status in ('initiating', 'processing')
  );
  return case
    when not is_prompted and (ended.expires_at <= now() or (ended.status = 'cancelled' and ended.reserved_until is not null)) then 'order'
    when ended.reserved_until <= now() then 'units'
  end;
end
$$;

comment on function private.due_end is
  'What ends now. order: the unpaid order, at expires_at; an open prompt delays that until expiry_limit. units: its hold, at reserved_until, also while a prompt is open. Null: nothing. A payment under review delays both.';

create or replace function private.due_orders(at_most integer) returns uuid[]
language plpgsql stable
set search_path = ''
set enable_seqscan = off
-- The partial indexes return due orders in order.
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
begin
  -- Each kind has its own index, so that a run without due orders reads nothing.
  return array(
    (
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'pending' and o.expires_at <= now() and private.due_end(o) is not null
      order by o.expires_at limit due_orders.at_most
    )
    union
    (
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'pending' and o.reserved_until <= now() and private.due_end(o) is not null
      order by o.reserved_until limit due_orders.at_most
    )
    union
    (
      -- Orders that staff cancelled return their units, too.
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'cancelled' and o.reserved_until is not null and private.due_end(o) is not null
      order by o.id limit due_orders.at_most
    )
    limit due_orders.at_most
  );
end
$$;

comment on function private.due_orders is 'Orders whose end, or whose hold''s end, is due (private.due_end).';

create or replace function public.expire_reservations(at_most integer default 200) returns integer
language plpgsql security definer set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  due uuid[];
  product_ids uuid[];
  ended public.orders;
  is_over boolean;
begin
  perform pg_advisory_xact_lock(hashtext('expire_reservations'));
  perform private.end_reviews();
  due := private.due_orders(expire_reservations.at_most);
  if due = '{}' then
    return 0;
  end if;
  select array_agg(o.id) into due from (
    select o.id from public.orders as o where o.id = any (due) for no key update skip locked
  ) as o;
  -- Checked again under the lock: a payment may have begun or arrived in the meantime.
  select coalesce(array_agg(o.id order by o.id), '{}') into due
  from public.orders as o
  where o.id = any (due) and private.due_end(o) is not null;
  product_ids := array(select i.product_id from public.order_items as i where i.order_id = any (due));
  -- Lock all products before the first changes, as renaming a category does.
  perform from public.products as p where p.id = any (product_ids) order by p.id for no key update;
  -- A payment locks the counters of its products, and not the products.
  perform from private.held_units as h where h.product_id = any (product_ids) order by h.product_id for no key update;
  for ended in select * from public.orders as o where o.id = any (due) order by o.id loop
    -- A hold may end before its order does.
    is_over := ended.status = 'cancelled' or private.due_end(ended) = 'order';
    if ended.reserved_until is not null then
      perform private.return_units(ended.id);
    end if;
    update public.orders as o
    set reserved_until = null, status = case when is_over then 'cancelled' else o.status end,
        expires_at = case when not is_over then o.expires_at end,
        updated_at = now()
    where o.id = ended.id;
  end loop;
  return cardinality(due);
end
$$;

comment on function public.expire_reservations is
  'Ends what private.due_end names: cancels unpaid orders, and returns the units that they hold, of at_most orders. Returns the number of orders.';

create or replace function private.take_units(order_id uuid) returns boolean
language plpgsql set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  product_ids uuid[] := array(select i.product_id from public.order_items as i where i.order_id = take_units.order_id);
begin
  -- Lock products by id, so that two orders of the same products cannot deadlock.
  perform from public.products as p where p.id = any (product_ids) order by p.id for update;
  if exists (
    select from public.products as p
    where p.id = any (product_ids) and p.stock_quantity
      < (select sum(i.quantity) from public.order_items as i where i.order_id = take_units.order_id and i.product_id = p.id)
  ) then
    return false;
  end if;
  update public.products as p
  set stock_quantity = p.stock_quantity
    - (select sum(i.quantity) from public.order_items as i where i.order_id = take_units.order_id and i.product_id = p.id)
  where p.id = any (product_ids);
  return true;
end
$$;

comment on function private.take_units is
  'Takes an order''s units out of stock again. False: there are not enough, and none was taken. The caller has locked the order.';

create or replace function private.end_reviews() returns void
language plpgsql set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  reviewed record;
  minutes interval := (select make_interval(mins => s.reservation_minutes) from public.store_settings as s);
begin
  for reviewed in
    select o.id as order_id, p.id as payment_id
    from public.payments as p
    join public.orders as o on o.id = p.order_id
    where p.status = 'review' and (
      case
        when exists (select from public.mpesa_transactions as t where t.attempt_id = p.id) then not exists (
          -- Resolved money belongs to another payment, was refunded, or was noted.
          select from public.mpesa_transactions as t
          where t.attempt_id = p.id and t.payment_id is null and coalesce(t.resolution, '') not in ('accepted', 'not_an_order')
            and not exists (select from public.refunds as r where r.receipt = t.receipt and r.status = 'completed')
        )
        else 'accepted' = (
          select e.kind from public.reconciliation_events as e where e.payment_id = p.id order by e.id desc limit 1
        )
      end
    )
    order by o.id
    for no key update of o skip locked
  loop
    -- updated_at stays: it decides the day in the books.
    update public.payments as p set status = 'failed', next_query_at = null where p.id = reviewed.payment_id and p.status = 'review';
    -- The customer gets the time of a new order to pay again.
    update public.orders as o
    set expires_at = greatest(o.expires_at, now() + minutes),
        reserved_until = case when o.reserved_until is not null then greatest(o.expires_at, now() + minutes) end,
        expiry_limit = greatest(o.expiry_limit, now() + 2 * minutes), extended_at = null
    where o.id = reviewed.order_id and o.payment_status = 'unpaid' and o.status <> 'cancelled';
  end loop;
end
$$;

comment on function private.end_reviews is
  'Ends attempts under review whose money staff have resolved. A later success still supersedes this.';

create or replace function private.count_held_units(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  paid_networks text[];
  was_held boolean := old.payment_status = 'unpaid' and old.reserved_until is not null and old.status in ('pending', 'cancelled');
  is_held boolean := new.id is not null
    and new.payment_status = 'unpaid' and new.reserved_until is not null and new.status in ('pending', 'cancelled');
begin
  if was_held and not is_held then
    -- In order of product, as expire_reservations locks them.
    perform from private.held_units as h
    where h.product_id = any (array(select i.product_id from public.order_items as i where i.order_id = old.id))
    order by h.product_id
    for no key update;
  end if;
  if is_held and not was_held then
    insert into private.held_units as known (product_id, quantity)
    select i.product_id, sum(i.quantity)
    from public.order_items as i
    where i.order_id = new.id and i.product_id is not null
    group by i.product_id
    order by i.product_id
    on conflict (product_id) do update set quantity = known.quantity + excluded.quantity;
  elsif was_held and not is_held then
    update private.held_units as known
    set quantity = known.quantity
      - (select sum(i.quantity) from public.order_items as i where i.order_id = old.id and i.product_id = known.product_id)
    where known.product_id = any (array(select i.product_id from public.order_items as i where i.order_id = old.id));
    -- Before the networks are deleted.
    perform private.end_counted_hold(old.id, is_sold => new.payment_status <> 'unpaid' or new.status not in ('pending', 'cancelled'));
  end if;
  if new.id is null then
    return;
  end if;

  -- Paid orders, and unpaid ones that were handed over, are not limited.
  if new.payment_status <> 'unpaid' or new.status not in ('pending', 'cancelled') then
    with forgotten as (
      delete from private.order_networks as k where k.order_id = new.id returning k.network
    )
    select array_agg(f.network) into paid_networks from forgotten as f;
    if new.payment_status <> 'unpaid' and paid_networks is not null then
      perform private.count_paid_order(paid_networks);
    end if;
  else
    update private.order_networks as k
    set is_open = new.status = 'pending',
        ended_at = case when not is_held then coalesce(k.ended_at, now()) end
    where k.order_id = new.id;
  end if;
end
$$;

-- Execution rights
grant execute on function public.expire_reservations to service_role;

-- Not where status = 'completed': without statistics the planner takes such an index for small, and reads all of it for the completed
-- payments of one order.
create index payments_by_completion on public.payments (completed_at) where completed_at is not null;

create or replace function private.orders_missing_receipt(receipt text) returns setof uuid
language sql stable set search_path = '' as $$
  select distinct p.order_id
  from public.mpesa_transactions as t
  cross join lateral (
    select p.order_id, p.status, p.purpose from public.payments as p
    where p.charge_cents = t.received_cents and p.method = 'prompt' and p.receipt is null
      -- M-PESA's clock may differ by minutes.
      and p.created_at between t.transacted_at - interval '15 minutes' and t.transacted_at + interval '15 minutes'
    offset 0
  ) as p
  where t.receipt = orders_missing_receipt.receipt and t.payment_id is null and p.purpose = 'order'
    and p.status in ('initiating', 'processing', 'unresolved', 'completed');
$$;

comment on function private.orders_missing_receipt is
  'Orders that unassigned money may belong to: they have a prompt of the same amount and time without a receipt.';

create index statement_pulls_with_gaps on public.statement_pulls (window_from) where missed_since is not null;

create index statement_pulls_by_window on public.statement_pulls using gist (tstzrange(window_from, window_to)) where outcome = 'complete';

create or replace function private.statement_coverage(period tstzrange) returns tstzmultirange
language sql stable set search_path = '' as $$
  select coalesce(range_agg(tstzrange(s.window_from, s.window_to)), '{}'::tstzmultirange)
  from public.statement_pulls as s
  where s.outcome = 'complete' and tstzrange(s.window_from, s.window_to) && statement_coverage.period;
$$;

comment on function private.statement_coverage is 'The time within a period, and around it, that complete pulls cover.';

-- Execution rights
grant execute on function public.confirm_till_payment, public.correct_till_payment, public.statement_status
  to authenticated, service_role;

create or replace function private.reconciliation_rows(since timestamptz, until timestamptz) returns setof public.reconciliation_row
language plpgsql stable
set search_path = ''
as $$
declare
  coverage tstzmultirange := private.statement_coverage(tstzrange(since, until + interval '10 minutes'));
begin
  return query
  with entries as (
    select t, coalesce(t.payment_id, t.attempt_id) as payment_id, t.resolution
    from public.mpesa_transactions as t
    where t.transacted_at >= reconciliation_rows.since and t.transacted_at < reconciliation_rows.until
    union all
    select null, ours.id, (
      -- For payments that only the shop knows, the last event is the decision.
      select nullif(e.kind, 'reopened') from public.reconciliation_events as e
      where e.payment_id = ours.id and e.kind not like 'change\_%' order by e.id desc limit 1
    )
    from (
      select p.id
      from public.payments as p
      where p.status = 'completed' and p.purpose = 'order'
        and p.completed_at >= reconciliation_rows.since and p.completed_at < reconciliation_rows.until
        and not exists (select from public.mpesa_transactions as t where t.payment_id = p.id)
      union all
      select p.id
      from public.payments as p
      where p.status = 'review' and p.purpose = 'order'
        and p.updated_at >= reconciliation_rows.since and p.updated_at < reconciliation_rows.until
        and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id)
      union all
      -- Looked at, and ended by that. Apart, so that each has its index.
      select p.id
      from public.payments as p
      where p.status = 'failed' and p.purpose = 'order'
        and p.updated_at >= reconciliation_rows.since and p.updated_at < reconciliation_rows.until
        and exists (select from public.reconciliation_events as e where e.payment_id = p.id and e.kind = 'accepted')
        and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id)
    ) as ours
  ),
  compared as (
    -- t: the money in M-PESA's books; p: the shop's payment of it, or the attempt whose callback named another amount; o: their order,
    -- or the order that the reference names.
    select e.t, p, o, e.resolution, refund.status as refund_status,
      case
        when (e.t).payment_id is null and (e.t).receipt is not null
          then case when (e.t).attempt_id is null and (e.t).order_id is null then 'missing_here' else 'wrong_amount' end
        when p.status in ('review', 'failed') then 'wrong_amount'
        when p.needs_refund then 'double'
        -- Parts that add up to the charge are right.
        when (e.t).received_cents <> p.charge_cents or money.booked_cents <> o.charge_cents then 'wrong_amount'
        when (e.t).receipt is not null then 'matched'
        -- A payment that joins a later attempt was completed before that was made.
        when (
          case when p.created_at >= since then coverage
            else private.statement_coverage(tstzrange(least(p.created_at, p.completed_at), p.completed_at + interval '10 minutes')) end
        ) @> tstzrange(least(p.created_at, p.completed_at), p.completed_at + interval '10 minutes') then 'missing_there'
        when p.method = 'till' and p.confirmed_by is not null and private.should_be_reported(o.id) then 'typed'
        else 'not_compared'
      end as kind,
      money.booked_cents, money.waiting_cents, change.owed_cents, change.returned_cents
    from entries as e
    -- Lookups by key for each entry, with any statistics: an offset keeps the planner from joining whole tables.
    left join lateral (select * from public.payments as p where p.id = e.payment_id offset 0) as p on true
    left join lateral (select * from public.orders as o where o.id = coalesce(p.order_id, (e.t).order_id) offset 0) as o on true
    left join lateral (
      select
        (select sum(own.charge_cents) from (select * from public.payments as own where own.order_id = o.id offset 0) as own
         where own.status = 'completed' and not own.needs_refund) as booked_cents,
        (select sum(part.received_cents) from (select * from public.mpesa_transactions as part where part.order_id = o.id offset 0) as part
         where part.payment_id is null and part.resolution is null) as waiting_cents
    ) as money on o.id is not null
    left join lateral private.change_of(p.id) as change on p.status = 'completed'
    left join lateral (
      select r.status from public.refunds as r
      where r.payment_id = p.id or r.receipt = coalesce((e.t).receipt, p.receipt)
      order by r.status in ('failed', 'withdrawn'), r.created_at desc
      limit 1
    ) as refund on true
    -- The money of a payment test pays no order.
    where p.purpose is distinct from 'test'
  )
  select
    coalesce((c.t).receipt, (c.p).id::text),
    coalesce((c.t).transacted_at, (c.p).completed_at, (c.p).updated_at),
    c.kind,
    case
      when c.kind in ('matched', 'not_compared') or c.refund_status not in ('failed', 'withdrawn')
        or c.resolution in ('accepted', 'not_an_order') then false
      when c.kind = 'double' then (c.p).refunded_at is null
      when c.kind = 'wrong_amount' and ((c.t).receipt is null or (c.t).payment_id is not null) and (c.p).status = 'completed'
        then (c.t).received_cents <> (c.p).charge_cents or (c.o).payment_status = 'needs_review'
      else true
    end,
    coalesce((c.t).receipt, (c.p).receipt),
    case when (c.p).status in ('completed', 'review') then (c.p).charge_cents end,
    (c.t).received_cents,
    (c.p).id, (c.p).status, (c.p).method, coalesce((c.p).needs_refund, false), (c.p).refunded_at, c.refund_status,
    (c.o).id, (c.o).order_number, (c.o).tracking_number, (c.o).customer_name, (c.o).charge_cents, (c.o).payment_status,
    (c.t).reference, (c.t).payer_name, (c.t).payer_phone, (c.t).reported_by_confirmation_at, (c.t).reported_by_statement_at,
    c.resolution,
    (c.o).status, c.booked_cents, c.waiting_cents, c.owed_cents, c.returned_cents, (c.p).confirmed_by
  from compared as c;
end
$$;

create or replace function public.reconciliation_day(day date) returns public.reconciliation_day
language plpgsql stable security definer
set search_path = ''
set enable_seqscan = off
set jit = off
as $$
declare
  since timestamptz := reconciliation_day.day::timestamp at time zone 'Africa/Nairobi';
  until timestamptz := (reconciliation_day.day + 1)::timestamp at time zone 'Africa/Nairobi';
begin
  perform private.expect_staff();
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

-- Execution rights
grant execute on function public.reconciliation_day, public.reconciliation_days,
  public.resolve_difference to authenticated, service_role;

create or replace function private.should_be_reported(order_id uuid) returns boolean
language sql stable set search_path = '' as $$
  select exists (select from private.mpesa_registrations as r where r.kind = 'till') or case
    -- A receipt does not show its time: any since the order was placed.
    when o.created_at < now() - interval '1 hour'
      then private.statement_coverage(tstzrange(o.created_at, now() - interval '1 hour')) @> tstzrange(o.created_at, now() - interval '1 hour')
    else false
  end
  from public.orders as o where o.id = should_be_reported.order_id;
$$;

comment on function private.should_be_reported is
  'Whether M-PESA reports every payment for an order: confirmations are registered, or complete statements cover the time since it was placed.';

create or replace function private.newest_delivery_of_each_rider(since timestamptz) returns setof public.deliveries
language plpgsql stable
set search_path = ''
-- One step in the index for each rider, whatever number of deliveries they have.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
begin
  return query
  with recursive riders (name) as (
    (select lower(d.delivery_person) from public.deliveries as d where d.delivery_person is not null order by 1 limit 1)
    union all
    select (
      select lower(d.delivery_person) from public.deliveries as d
      where d.delivery_person is not null and lower(d.delivery_person) > r.name
      order by 1 limit 1
    )
    from riders as r where r.name is not null
  )
  select newest.*
  from riders as r
  cross join lateral (
    select * from public.deliveries as d
    where d.delivery_person is not null and lower(d.delivery_person) = r.name and d.created_at > newest_delivery_of_each_rider.since
    order by d.created_at desc, d.id desc limit 1
  ) as newest;
end
$$;

create or replace function public.recent_riders() returns table (
  name text, phone text, vehicle text, open_deliveries integer, last_assigned_at timestamptz
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff();
  return query
    with open as materialized (
      select lower(d.delivery_person) as name, count(*)::integer as count
      from (select * from public.deliveries as d where d.delivery_status in ('pending', 'assigned', 'picked_up', 'in_transit') offset 0) as d
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

create or replace function private.short_search_rows() returns integer
language sql immutable
return 2000;

comment on function private.short_search_rows is
  'Number of newest rows that are searched if every part of the search has fewer than three letters, because trigram indexes do not contain shorter parts.';

-- Conditions read the row's own items and rider in a scalar subquery. With EXISTS PostgreSQL used a hashed subplan and read all items
-- of the shop for the few orders of a search.
create or replace function private.list_conditions(
  filters private.list_filters, is_count boolean, out by_index text, out by_row text, out candidates text, out is_exact boolean,
  out is_broad boolean
)
language plpgsql stable set search_path = '' as $$
declare
  is_orders constant boolean := filters.list = 'orders';
  own constant text := case when is_orders then 'o' else 'd' end;
  -- As in the indexes by words.
  folded constant text := $sql$translate(lower(%s), 'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu')$sql$;
  order_text constant text := format(folded, $sql$o.order_number || E'\n' || split_part(o.tracking_number, '-', 3) || E'\n' || o.customer_name || E'\n' || o.customer_email || E'\n' || o.customer_phone || E'\n' || replace(o.customer_phone, '+254', '0') || E'\n' || o.shipping_address || E'\n' || o.city$sql$);
  item_text constant text := format(folded, 'i.product_name');
  rider_text constant text := format(folded, $sql$coalesce(d.delivery_person, '') || E'\n' || regexp_replace(coalesce(d.delivery_phone, ''), '[^0-9]', '', 'g')$sql$);
  is_open constant text := $sql$o.status in ('pending', 'processing', 'shipped', 'out_for_delivery')$sql$;
  is_open_delivery constant text := $sql$d.delivery_status in ('pending', 'assigned', 'picked_up', 'in_transit')$sql$;
  is_refund_due constant text := $sql$((o.payment_status = 'paid' and o.status = 'cancelled') or exists (
    select from public.payments as p where p.order_id = o.id and p.needs_refund and p.refunded_at is null and p.status = 'completed'))$sql$;
  is_review_due constant text := $sql$(o.payment_status = 'needs_review' or (o.payment_status = 'unpaid' and exists (
    select from public.payments as p where p.order_id = o.id and p.status = 'review')))$sql$;
  rider_name constant text := lower(trim(left(filters.rider, 120)));
  typed record;
  indexed text[] := '{}';
  checked text[] := '{}';
  pattern text;
  in_order text[] := '{}';
  anywhere text[] := '{}';
  -- A count stops at 501 orders, of which few have more than three lines with the same word.
  bound text := '';
begin
  typed := private.read_list_search(filters.search);
  is_broad := true;
  is_exact := false;

  if filters.from_day is not null then
    indexed := indexed || format($sql$%s.created_at >= %L::date::timestamp at time zone 'Africa/Nairobi'$sql$, own, filters.from_day);
  end if;
  if filters.until_day is not null then
    indexed := indexed || format($sql$%s.created_at < (%L::date + 1)::timestamp at time zone 'Africa/Nairobi'$sql$, own, filters.until_day);
  end if;

  if is_orders then
    indexed := indexed || case
      when filters.status is null then null
      -- Staff choose "Shipped"; a delivery that leaves makes its order "Out For Delivery".
      when filters.status = 'shipped' then is_open || $sql$ and o.status in ('shipped', 'out_for_delivery')$sql$
      when filters.status in ('pending', 'processing', 'out_for_delivery') then is_open || format(' and o.status = %L', filters.status)
      else format('o.status = %L', filters.status)
    end;
    indexed := indexed || case filters.payment
      when 'paid' then $sql$o.payment_status = 'paid' and o.status <> 'cancelled'$sql$
      -- A cancelled unpaid order owes nothing.
      when 'unpaid' then $sql$o.payment_status = 'unpaid' and o.status <> 'cancelled'$sql$
      when 'refunded' then $sql$o.payment_status = 'refunded'$sql$
      when 'needs_review' then null
      when 'refund_due' then null
      else case when filters.payment is not null then 'false' end
    end;
    indexed := indexed || case filters.due
      when 'late' then is_open || $sql$ and o.payment_status = 'paid' and coalesce(
        (select d.created_at from public.deliveries as d where d.order_id = o.id), o.created_at
      ) < now() - private.delivery_promise()$sql$
      else case when filters.due is not null then
        is_open || format($sql$ and o.payment_status = 'paid' and private.work_step(
          o.status, o.payment_status, (select d.delivery_status from public.deliveries as d where d.order_id = o.id)
        ) = %L$sql$, filters.due)
      end
    end;
  else
    indexed := indexed || case when filters.status is not null then format('d.delivery_status = %L', filters.status) end;
    indexed := indexed || case filters.due
      when 'late' then is_open_delivery || $sql$ and d.created_at < now() - private.delivery_promise()
        and (select o.status from public.orders as o where o.id = d.order_id) <> 'cancelled'$sql$
      else case when filters.due is not null then 'false' end
    end;
  end if;

  -- Conditions without an index in the order of the list, the rarest last: candidates come from it.
  if rider_name <> '' then
    if is_orders then
      checked := checked || format(
        'coalesce((select lower(d.delivery_person) = %L from public.deliveries as d where d.order_id = o.id), false)', rider_name
      );
      candidates := format('select d.order_id as id from public.deliveries as d where lower(d.delivery_person) = %L', rider_name);
      is_exact := true;
    else
      indexed := indexed || format('lower(d.delivery_person) = %L', rider_name);
    end if;
  end if;
  if cardinality(typed.order_ids) > 0 then
    checked := checked || format('o.id = any (%L::uuid[])', typed.order_ids);
    candidates := format('select unnest(%L::uuid[]) as id', typed.order_ids);
    is_exact := true;
    is_broad := false;
  elsif typed.words is not null then
    -- Words that are in no product or rider must be in the order itself, whose index finds all of them at once. Parts of fewer than
    -- three letters are not in trigram indexes.
    foreach pattern in array typed.words loop
      if pattern ~ '[[:alnum:]]{3}' then
        if private.is_in_item_names(pattern) or (not is_orders and private.is_in_rider_names(pattern)) then
          anywhere := anywhere || pattern;
        else
          in_order := in_order || pattern;
        end if;
      end if;
    end loop;
    is_exact := cardinality(in_order) + cardinality(anywhere) = cardinality(typed.words) and (in_order = '{}' or anywhere = '{}');
    checked := checked || format('(%s like all (%L::text[])%s)',
      order_text || case when in_order <> typed.words then
        format($sql$ || E'\n' || coalesce((select string_agg(%s, E'\n') from public.order_items as i where i.order_id = o.id), '')$sql$, item_text)
        || case when is_orders then '' else format($sql$ || E'\n' || %s$sql$, rider_text) end
        else '' end,
      typed.words,
      case when typed.digits is not null then
        format(' or %s like %L', order_text, typed.digits)
        || case when is_orders then '' else format(' or %s like %L', rider_text, typed.digits) end
      end
    );
    if is_count and is_orders and is_exact and cardinality(anywhere) = 1 and cardinality(checked) = 1 and array_to_string(indexed, '') = '' then
      bound := ' limit 1503';
    end if;
    -- Without longer parts only the newest rows are searched: candidates stay null, or are these rows and the orders with the digits.
    candidates := case
      when cardinality(in_order) > 0 then format('select o.id from public.orders as o where %s',
        (select string_agg(format('%s like %L', order_text, p.pattern), ' and ') from unnest(in_order) as p (pattern))
        || case when typed.digits is not null then format(' or %s like %L', order_text, typed.digits) else '' end)
      when cardinality(anywhere) > 0 then (
        select string_agg(format('((select i.order_id as id from public.order_items as i where %s like %L%s)', item_text, p.pattern, bound)
          || format(' union (select o.id from public.orders as o where %s like %L%s)', order_text, p.pattern, bound)
          || case when is_orders then '' else
            format(' union select d.order_id from public.deliveries as d where %s like %L', rider_text, p.pattern) end
          || ')', ' intersect ')
        from unnest(anywhere) as p (pattern))
      when typed.digits is not null then format(
        '(select %s as id from public.%I as %s where %s order by %3$s.created_at desc, %3$s.id desc limit %s)
         union select o.id from public.orders as o where %s like %L',
        case when is_orders then 'o.id' else 'd.order_id' end, filters.list, own,
        coalesce(nullif(array_to_string(indexed, ' and '), ''), 'true'), private.short_search_rows(), order_text, typed.digits)
    end || case when typed.digits is not null and not is_orders then
      format(' union select d.order_id from public.deliveries as d where %s like %L', rider_text, typed.digits) else '' end;
  end if;
  if is_orders and filters.payment = 'needs_review' then
    -- Money that came too late or in part, or that M-PESA reports in another amount.
    checked := checked || is_review_due;
    is_exact := false;
    candidates := $sql$
      select o.id from public.orders as o where o.payment_status = 'needs_review'
      union
      select p.order_id from public.payments as p where p.status = 'review'$sql$;
    is_broad := false;
  end if;
  if is_orders and filters.payment = 'refund_due' then
    checked := checked || is_refund_due;
    is_exact := true;
    candidates := $sql$
      select o.id from public.orders as o where o.payment_status = 'paid' and o.status = 'cancelled'
      union
      select p.order_id from public.payments as p where p.needs_refund and p.refunded_at is null and p.status = 'completed'$sql$;
    is_broad := false;
  end if;
  by_index := coalesce(nullif(array_to_string(indexed, ' and '), ''), 'true');
  by_row := nullif(array_to_string(checked, ' and '), '');
  is_exact := is_exact and cardinality(checked) = 1;
end
$$;

comment on function private.list_conditions is
  'The filters of a staff list, orders (o) or deliveries (d with their order o), as conditions in SQL. by_index: on the list''s own table, served by an index in the order of the list; by_row: all others, or null; candidates: a query for the ids of orders that may match, or null to scan only private.short_search_rows() rows; is_exact: whether each candidate meets by_row; is_broad: whether the newest rows are scanned first.';

create or replace function private.rows_of_candidates(list text, by_index text, by_row text, candidates text) returns text
language sql immutable set search_path = '' as $$
  -- The limits keep the planner from reading every row for a few ids. Rows are checked newest first, so that a full page ends the query:
  -- by_row reads and folds all texts of an order.
  select format(
    'with candidates as materialized (%1$s), newest as materialized (
       select %2$s.id, %2$s.%3$s as order_id, %2$s.created_at
       from candidates as c
       cross join lateral (select %2$s.* from public.%4$I as %2$s where %2$s.%3$s = c.id limit 1) as %2$s
       where %5$s
       order by %2$s.created_at desc, %2$s.id desc
     )
     select n.id, n.created_at
     from newest as n
     cross join lateral (select o.* from public.orders as o where o.id = n.order_id limit 1) as o%6$s
     where %7$s',
    candidates, case when list = 'orders' then 'o' else 'd' end, case when list = 'orders' then 'id' else 'order_id' end, list, by_index,
    case when list <> 'orders' then ' cross join lateral (select d.* from public.deliveries as d where d.id = n.id limit 1) as d' end,
    by_row
  );
$$;

create or replace function private.find_in_list(
  filters private.list_filters, before_created_at timestamptz, before_id uuid, page_size integer
) returns uuid[]
language plpgsql stable set search_path = '' set jit = off as $$
declare
  most constant integer := least(greatest(coalesce(page_size, 50), 1), 1000);
  conditions record;
  found_ids uuid[];
  is_whole_list boolean := false;
  nearby integer;
begin
  conditions := private.list_conditions(filters, false);
  if conditions.is_broad then
    -- A few of the newest rows show whether a search is broad. Then its page is soon complete; rarer matches come from the candidates.
    foreach nearby in array case
      when conditions.by_row is null then array[most]
      when conditions.candidates is null then array[10 * most, greatest(private.short_search_rows(), 10 * most)]
      else array[10 * most, 40 * most]
    end loop
      select w.found_ids, w.is_whole_list into found_ids, is_whole_list
      from private.walk_list(filters.list, conditions.by_index, conditions.by_row, before_created_at, before_id, most, nearby) as w;
      exit when is_whole_list or coalesce(cardinality(found_ids), 0) = most
        or (conditions.candidates is not null and 4 * coalesce(cardinality(found_ids), 0) < most);
    end loop;
  end if;
  if conditions.candidates is not null and coalesce(cardinality(found_ids), 0) < most and not is_whole_list then
    execute format(
      'select array_agg(page.id) from (%s and ($2 is null or (n.created_at, n.id) < ($1, $2)) limit $3) as page',
      private.rows_of_candidates(
        filters.list, conditions.by_index, case when conditions.is_exact then 'true' else conditions.by_row end, conditions.candidates
      )
    ) into found_ids using before_created_at, before_id, most;
  end if;
  return found_ids;
end
$$;

comment on function private.find_in_list is 'The ids of a page of a staff list, newest first.';

create or replace function private.count_along_index(list text, by_index text, most integer) returns integer
language plpgsql stable
set search_path = ''
set jit = off
-- Stops at the limit: a bitmap scan would read all rows first.
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  count integer;
begin
  execute format(
    'select count(*) from (select from public.%I as %s where %s limit %s) as bounded',
    list, case when list = 'orders' then 'o' else 'd' end, by_index, most
  ) into count;
  return count;
end
$$;

create or replace function private.count_in_list(filters private.list_filters) returns integer
language plpgsql stable set search_path = '' set jit = off as $$
declare
  conditions record;
  count integer;
begin
  conditions := private.list_conditions(filters, true);
  if filters.list = 'orders' and conditions.by_row is null and conditions.by_index = 'true' then
    select coalesce(sum(t.orders), 0) into count from private.daily_totals as t;
  elsif conditions.by_row is null then
    count := private.count_along_index(filters.list, conditions.by_index, case when filters.rider <> '' then 501 else 10001 end);
  elsif conditions.candidates is null then
    select coalesce(cardinality(w.found_ids), 0) into count
    from private.walk_list(filters.list, conditions.by_index, conditions.by_row, null, null, 501, private.short_search_rows()) as w;
  elsif conditions.is_exact then
    execute format(
      'select count(*) from (
         select from (%1$s) as c%2$s limit 501
       ) as bounded',
      conditions.candidates,
      case when filters.list <> 'orders' or conditions.by_index <> 'true' then format(
        ' cross join lateral (select %1$s.* from public.%2$I as %1$s where %1$s.%3$s = c.id limit 1) as %1$s where %4$s',
        case when filters.list = 'orders' then 'o' else 'd' end, filters.list,
        case when filters.list = 'orders' then 'id' else 'order_id' end, conditions.by_index
      ) end
    ) into count;
  else
    execute format(
      'select count(*) from (select from (%s) as found limit 501) as bounded',
      private.rows_of_candidates(filters.list, conditions.by_index, conditions.by_row, conditions.candidates)
    ) into count;
  end if;
  return count;
end
$$;

comment on function private.count_in_list is
  'Number of rows of a staff list that match the filters, at most 10001, which means more than 10,000. For a search or rider at most 501. All orders are counted exactly.';

create or replace function private.walk_by_text(
  rows text, searched text, pattern text, before_created_at timestamptz, before_id uuid, most integer, nearby integer,
  out found_ids uuid[], out is_whole_list boolean
)
language plpgsql stable
set search_path = ''
set jit = off
-- As in walk_list.
set enable_sort = off
set enable_bitmapscan = off
as $$
begin
  execute format(
    'with near as materialized (
       select t.id, coalesce(%s like $1, true) as matches %s order by t.created_at desc, t.id desc limit $5
     )
     select (select array_agg(found.id) from (select n.id from near as n where n.matches limit $4) as found), (select count(*) < $5 from near)',
    searched, rows
  ) into found_ids, is_whole_list using pattern, before_created_at, before_id, most, nearby;
end
$$;

create or replace function private.find_by_text(
  list text, searched text, condition text, search text, before_created_at timestamptz, before_id uuid, page_size integer
) returns uuid[]
language plpgsql stable set search_path = '' as $$
declare
  -- Characters match literally. A line break, which would match across two columns, counts as a space. Null for an empty search.
  pattern constant text := '%' || regexp_replace(
    lower(regexp_replace(nullif(trim(search), ''), '[\n\r]', ' ', 'g')), '([\\%_])', '\\\1', 'g'
  ) || '%';
  most constant integer := least(greatest(coalesce(page_size, 50), 1), 1000);
  -- A search scans this many of the newest before it uses the trigram index: a broad search has found its page by then.
  nearby constant integer := case when pattern is null then most when list = 'products' then 10 * most else 40 * most end;
  newest constant text := format(
    'from public.%I as t where %s%s', list, condition, case when before_id is not null then ' and (t.created_at, t.id) < ($2, $3)' end
  );
  found_ids uuid[];
  is_whole_list boolean;
begin
  select w.found_ids, w.is_whole_list into found_ids, is_whole_list
  from private.walk_by_text(newest, searched, pattern, before_created_at, before_id, most, nearby) as w;
  -- Trigram indexes do not contain shorter parts. A catalogue is read whole for them.
  if (pattern ~ '[[:alnum:]]{3}' or list = 'products') and coalesce(cardinality(found_ids), 0) < most and not is_whole_list then
    execute format(
      'with found as materialized (select t.id, t.created_at %s and %s like $1)
       select array_agg(last.id)
       from (select f.id from found as f order by f.created_at desc, f.id desc limit $4) as last',
      -- Hides the status from the planner, which would prefer its index.
      replace(newest, 't.status =', $sql$t.status || '' =$sql$), searched
    ) into found_ids using pattern, before_created_at, before_id, most;
  end if;
  return found_ids;
end
$$;

comment on function private.find_by_text is
  'The ids of a page of a list, newest first, that meet a condition and whose searched text contains the search. Both are SQL about t, the row.';

create or replace function public.count_orders(
  search text default '', status text default null, payment text default null, from_day date default null,
  until_day date default null, rider text default null, due text default null
) returns integer
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return private.count_in_list(('orders', search, status, payment, from_day, until_day, rider, due));
end
$$;

comment on function public.count_orders is
  'For staff: number of orders that search_orders finds on all pages. 501 means more than 500, for a search or rider; 10001 more than 10,000, for other filters.';

create or replace function public.count_deliveries(
  search text default '', status text default null, from_day date default null, until_day date default null,
  rider text default null, due text default null
) returns integer
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return private.count_in_list(('deliveries', search, status, null, from_day, until_day, rider, due));
end
$$;

comment on function public.count_deliveries is
  'For staff: number of deliveries that search_deliveries finds on all pages. 501 means more than 500, for a search or rider; 10001 more than 10,000, for other filters.';

-- Execution rights
grant execute on function public.search_orders, public.count_orders, public.search_deliveries, public.count_deliveries,
  public.count_work to authenticated, service_role;

-- Sending messages: the queue of the outbox and the daily budgets.

create or replace function private.message_facts(order_id uuid, kind text, event_key text) returns jsonb
language plpgsql stable set search_path = '' as $$
declare
  shop jsonb := (
    select jsonb_build_object('name', s.store_name, 'phone', s.support_phone, 'email', s.support_email)
    from public.store_settings as s
  );
begin
  if message_facts.kind = 'newsletter_confirmation' then
    return jsonb_build_object('shop', shop, 'subscription_id', message_facts.event_key);
  elsif private.is_staff_message(message_facts.kind) then
    return jsonb_build_object('shop', shop) || private.staff_message_facts(message_facts.kind, message_facts.event_key);
  end if;
  return (select jsonb_build_object(
    'shop', shop,
    'tracking_number', o.tracking_number,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = o.id limit 1),
    'customer_name', o.customer_name,
    'delivery_fee', o.delivery_fee,
    'total_amount', o.total_amount,
    'items', array(
      select jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
      from public.order_items as i where i.order_id = o.id order by i.created_at, i.id
    ),
    'payment', (
      select jsonb_build_object(
        'charge_cents', p.charge_cents, 'receipt', p.receipt, 'paid_at', p.completed_at,
        'refund_receipt', p.refund_receipt
      )
      -- The few payments of the order, before any order or limit: the planner would rather read all payments in order of completion.
      from (select * from public.payments as own where own.order_id = o.id offset 0) as p
      where p.status = 'completed'
        and case
          when message_facts.event_key = '' then not p.needs_refund
          -- Merged payments have one refund.
          else exists (select from public.refunds as r where r.id::text = message_facts.event_key and r.payment_id = p.id)
        end
      order by p.completed_at desc
      limit 1
    )
  )
  from public.orders as o
  where o.id = message_facts.order_id);
end
$$;

comment on function private.message_facts is
  'Values of a message''s placeholders. payment: the one that paid the order, or whose refund is the event_key. Newsletter mails: the shop and the subscription. Messages to staff: staff_message_facts.';

create or replace function private.due_messages(channel text, most integer) returns setof uuid
language plpgsql
set search_path = ''
-- A plan that was made for an empty queue must not scan or sort a full one.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
begin
  return query
    select q.message_id from private.outbox_queue as q
    where q.channel = due_messages.channel and q.due_at <= now()
    order by q.due_at
    limit due_messages.most
    for update skip locked;
end
$$;

comment on function private.due_messages is 'Locks the messages of a channel that have been due for longest, and returns their ids.';

create or replace function public.lease_messages(at_most integer default 10, channel text default null)
returns setof public.leased_message
language plpgsql security definer set search_path = '' set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  most integer := least(greatest(coalesce(lease_messages.at_most, 10), 1), 100);
  lost uuid[];
  due uuid[];
begin
  -- The process ended while it was sending the message.
  lost := array(
    select m.id from public.outbox_messages as m
    where m.status = 'sending' and m.sending_since < now() - interval '5 minutes'
    for update skip locked
  );
  if cardinality(lost) > 0 then
    update public.outbox_messages as m
    set status = 'unsure', problem = 'The shop stopped while it was sending this. It may have arrived.', updated_at = now()
    where m.id = any (lost);
  end if;

  due := array(
    select next.message_id
    from unnest(case when lease_messages.channel is null then array['mail', 'text'] else array[lease_messages.channel] end)
      as wanted (channel)
    cross join lateral private.due_messages(wanted.channel, most) as next (message_id)
    limit most
  );
  return query
  with taken as (
    update private.outbox_queue as q
    set due_at = now() + interval '1 minute', lease = gen_random_uuid()
    where q.message_id = any (due)
    returning q.message_id, q.lease
  )
  select m.id, taken.lease, m.kind, m.channel, m.recipient, worded.subject, worded.body,
    private.message_facts(m.order_id, m.kind, m.event_key)
  from taken
  -- With an offset these stay lookups by key: a join could read all messages.
  cross join lateral (select * from public.outbox_messages as m where m.id = taken.message_id offset 0) as m
  cross join lateral (
    select * from public.message_templates as t where t.kind = m.kind and t.channel = m.channel offset 0
  ) as worded;
end
$$;

comment on function public.lease_messages is
  'Leases due messages for a minute, of one channel or both, each with its template and values. Messages whose process ended while sending them become unsure.';

create or replace function private.sent_without_priority(channel text) returns integer
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    select count(*)
    from (
      select m.kind, m.status from public.outbox_messages as m
      where m.channel = sent_without_priority.channel and not m.has_priority
        and m.sending_since >= private.nairobi_day(now())::timestamp at time zone 'Africa/Nairobi'
      -- Keeps the planner from the index by status, which is of all messages ever sent.
      offset 0
    ) as m
    where m.kind <> 'newsletter_confirmation' and m.status in ('sending', 'sent', 'unsure')
  );
end
$$;

comment on function private.sent_without_priority is
  'Messages of a channel sent today about orders that visitors placed without paying. Those of an order stop counting when it is paid.';

grant execute on function public.lease_messages, public.begin_message, public.finish_message to service_role;

create or replace function private.is_phone(written text, phone text) returns boolean
language sql immutable
-- Reading a phone costs much more than comparing its last digits.
return right(regexp_replace(is_phone.written, '[^0-9]', '', 'g'), 9) = right(is_phone.phone, 9)
  and private.normalised_phone(is_phone.written) = is_phone.phone;

create or replace function private.orders_of_person(email text, phone text) returns uuid[]
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return array(
    select o.id
    from public.orders as o
    -- Served by the index of the order search.
    where translate(lower(o.order_number || E'\n' || split_part(o.tracking_number, '-', 3) || E'\n' || o.customer_name || E'\n' || o.customer_email || E'\n'
        || o.customer_phone || E'\n' || replace(o.customer_phone, '+254', '0') || E'\n' || o.shipping_address || E'\n' || o.city),
        'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu') like
        '%' || regexp_replace(translate(lower(coalesce(orders_of_person.email, orders_of_person.phone)), 'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu'), '([\\%_])', '\\\1', 'g') || '%'
      and (lower(o.customer_email) = orders_of_person.email or o.customer_phone = orders_of_person.phone)
    order by o.created_at desc, o.id
  );
end
$$;

comment on function private.orders_of_person is 'The orders with this email address, in lower case, or this phone, newest first.';

create or replace function public.export_person(identifier text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person record;
  person_key text;
  order_ids uuid[];
  answer jsonb;
begin
  perform private.expect_staff();
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
        'delivery_fee', o.delivery_fee, 'total_amount', o.total_amount,
        'erasure_requested_at', o.erasure_requested_at,
        'reason_to_keep', private.retention_reason(o.id),
        'items', array(
          select jsonb_build_object('product', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
          from public.order_items as i where i.order_id = o.id order by i.created_at, i.id
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
      select to_jsonb(i) - 'id' - 'is_read'
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
      from public.outbox_messages as m where m.order_id is null and lower(m.recipient) = person.email order by m.created_at
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
  perform private.expect_staff();
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
  where p.purpose = 'test' and p.phone = person.phone and p.status not in ('initiating', 'processing');

  delete from public.inquiries as i where lower(i.email) = person.email or private.is_phone(i.phone, person.phone);
  get diagnostics erased.inquiries = row_count;
  delete from public.newsletter_subscriptions as n where lower(n.email) = person.email;
  get diagnostics erased.newsletter = row_count;

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
  'For staff: anonymises the orders of a phone or email address, removes the phone from payments of other orders, deletes inquiries and the newsletter subscription. Open orders are listed with the reason: own ones (is_own) are anonymised once they are closed, others need another request. Logged. M-PESA''s messages stay for store_settings.payment_messages_months.';

-- Execution rights
grant execute on function public.export_person, public.erase_person to authenticated, service_role;

create or replace function public.count_payments_since(since timestamptz default null) returns table (count integer, newest timestamptz)
language plpgsql stable security definer set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  perform private.expect_staff();
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

create or replace function public.day_totals(day date) returns table (
  placed bigint, rounding bigint, not_paid bigint, paid_otherwise bigint, other_amounts bigint, received_for_orders bigint,
  paid_other_days bigint, placed_other_days bigint, received bigint, refunded bigint, net_received bigint,
  other_clock bigint, booked bigint, delivery_fees bigint, in_review bigint
)
language plpgsql stable security definer set search_path = '' set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  since timestamptz := day_totals.day::timestamp at time zone 'Africa/Nairobi';
  until timestamptz := (day_totals.day + 1)::timestamp at time zone 'Africa/Nairobi';
begin
  perform private.expect_staff();
  return query
  with orders as (
    select o.total_amount, o.charge_cents, o.delivery_fee, o.payment_status <> 'unpaid' as is_paid, money.payments, money.cents, money.then_cents
    from public.orders as o
    cross join lateral (
      select count(*) as payments, coalesce(sum(p.charge_cents), 0) as cents,
        coalesce(sum(p.charge_cents) filter (where p.completed_at >= since and p.completed_at < until), 0) as then_cents
      from public.payments as p where p.order_id = o.id and p.status = 'completed' and p.purpose = 'order'
    ) as money
    where o.created_at >= since and o.created_at < until
  ), by_order as (
    select
      coalesce(sum(o.total_amount), 0) as placed,
      coalesce(sum(o.charge_cents - o.total_amount) filter (where o.is_paid), 0) as rounding,
      -coalesce(sum(o.total_amount) filter (where not o.is_paid), 0) as not_paid,
      -coalesce(sum(o.charge_cents) filter (where o.is_paid and o.payments = 0), 0) as paid_otherwise,
      coalesce(sum(o.cents - case when o.is_paid then o.charge_cents else 0 end) filter (where o.payments > 0), 0) as other_amounts,
      coalesce(sum(o.cents), 0) as received_for_orders,
      coalesce(sum(o.then_cents), 0) as received_then,
      coalesce(sum(o.delivery_fee) filter (where o.is_paid), 0) as delivery_fees
    from orders as o
  ), by_payment as (
    select
      coalesce(sum(p.charge_cents), 0) as received,
      coalesce(sum(p.charge_cents) filter (where o.payment_status = 'needs_review'), 0) as in_review,
      -- M-PESA's clock decides the day in the books.
      coalesce(sum(p.charge_cents) filter (where t.transacted_at < since or t.transacted_at >= until), 0) as left_day
    from public.payments as p
    left join lateral (select o.payment_status from public.orders as o where o.id = p.order_id offset 0) as o on true
    left join lateral (select t.transacted_at from public.mpesa_transactions as t where t.payment_id = p.id offset 0) as t on true
    where p.status = 'completed' and p.purpose = 'order' and p.completed_at >= since and p.completed_at < until
  ), other_day as (
    select coalesce(sum(p.charge_cents), 0) as cents
    from public.mpesa_transactions as t
    cross join lateral (select p.* from public.payments as p where p.id = t.payment_id offset 0) as p
    where t.transacted_at >= since and t.transacted_at < until and p.status = 'completed' and p.purpose = 'order'
      and not coalesce(p.completed_at >= since and p.completed_at < until, false)
  ), sent_back as (
    select coalesce(sum(money.cents), 0)::bigint as cents
    from (
      select r.refund_cents as cents
      from public.refunds as r
      cross join lateral (select p.purpose from public.payments as p where p.id = r.payment_id offset 0) as p
      where r.status = 'completed' and p.purpose = 'order' and r.completed_at >= since and r.completed_at < until
      union all
      select c.amount_cents from public.change_notes as c where c.kind = 'returned' and c.noted_at >= since and c.noted_at < until
    ) as money
  )
  select
    a.placed, a.rounding, a.not_paid, a.paid_otherwise, a.other_amounts::bigint, a.received_for_orders::bigint,
    (a.received_then - a.received_for_orders)::bigint,
    (b.received - a.received_then)::bigint,
    b.received, -d.cents, b.received - d.cents,
    c.cents - b.left_day, b.received + c.cents - b.left_day,
    a.delivery_fees, b.in_review
  from by_order as a, by_payment as b, other_day as c, sent_back as d;
end
$$;

comment on function public.day_totals is
  'For staff: how the totals of a day in Nairobi follow from each other, in cents; steps that take away are negative. placed (orders placed, paid or not) + rounding (to whole shillings) + not_paid + paid_otherwise (paid without M-PESA) + other_amounts (paid twice, in parts, or in another amount) = received_for_orders, whenever; + paid_other_days + placed_other_days = received (payments completed on the day); + refunded (refunds, and change that went back) = net_received, as in dashboard_figures; received + other_clock (M-PESA''s time is on another day) = booked, as in reconciliation_days. Included: delivery_fees of paid orders, in_review of received.';

-- Metrics for monitoring (docs/monitoring.md)

grant execute on function public.daily_figures, public.system_status, public.dashboard_figures, public.day_totals,
  public.count_payments_since to authenticated;

grant execute on function public.record_page_views, public.record_backup, public.shop_metrics to service_role;
