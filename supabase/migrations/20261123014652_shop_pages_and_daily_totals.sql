-- Pages of the shop's list with counts that change with the catalogue; figures per day that change with what they count; counts with a
-- limit; a reconciliation day that is looked up by key.

update public.products set brand = left(brand, 160) where char_length(brand) > 160;
alter table public.products add constraint "a brand is at most 160 characters" check (char_length(brand) <= 160);

drop trigger payments_after_status_change on public.payments;

drop trigger refunds_after_change on public.refunds;

drop function public.find_products(text);

-- The orders of the shop page; those by brand and by flavour serve its filters too.
create index products_shown_newest_first on public.products (created_at desc, id) where is_active;

create index products_shown_by_price on public.products (price, created_at desc, id) where is_active;

create index products_shown_by_brand on public.products (lower(brand), brand, created_at desc, id) where is_active;

create index products_shown_by_flavour on public.products (lower(category), category, created_at desc, id) where is_active;

create table private.catalogue_counts (
  category text not null,
  brand text not null,
  products integer not null,
  primary key (category, brand)
);

comment on table private.catalogue_counts is
  'How many active products each pair of flavour and brand has, empty for none. Changes with them, so that no page reads the catalogue to count it.';

alter table private.catalogue_counts enable row level security;

create or replace function private.count_active_products(old public.products, new public.products) returns void
language plpgsql
set search_path = ''
as $$
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

create or replace function private.shop_page_ids(brand text, category text, sort text, first integer, most integer) returns uuid[]
language plpgsql stable
set search_path = ''
-- Walks along the index of the sort and stops, whatever the statistics say.
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
set enable_hashjoin = off
set enable_mergejoin = off
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
  found_ids uuid[];
  shown_ids uuid[];
  matching integer;
begin
  if wanted <> '' then
    found_ids := array(select s.id from public.search_products(wanted, most_found) as s);
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
      join public.products as p on p.id = match.id
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
      join public.products as p on p.id = s.id
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
      join public.products as p on p.id = f.id
    ) end,
    'correction', case when wanted <> '' then public.correct_search(wanted) end
  );
end
$$;

comment on function public.shop_page(text, text, text, text, integer) is
  'What the shop page shows. Up to 60 active products are all given, newest first, with the slugs that a search found, best first. Of more products, 60 per page that match the search, brand and flavour, in the order of sort; if none does, the newest 12. count: products that match; may_be_more: the search has reached its 250 best matches.';

grant execute on function public.shop_page(text, text, text, text, integer) to anon, authenticated, service_role;

create index payments_failed on public.payments (updated_at) where status = 'failed';

create or replace function private.reconciliation_rows(since timestamptz, until timestamptz) returns table (
  id text, happened_at timestamptz, kind text, is_open boolean, receipt text, our_cents integer, their_cents integer,
  payment_id uuid, payment_status text, method text, needs_refund boolean, refunded_at timestamptz, refund_status text,
  order_id uuid, order_number text, tracking_number text, customer_name text, charge_cents integer,
  order_payment_status text, reference text, payer_name text, payer_phone text, reported_by_confirmation_at timestamptz,
  reported_by_statement_at timestamptz, resolution text
)
language plpgsql stable
set search_path = ''
-- A day and a year need different plans.
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  coverage tstzmultirange := private.statement_coverage();
begin
  return query
  with theirs as (
    select t.receipt, t.received_cents, t.reference, t.payer_name, t.payer_phone, t.transacted_at, t.payment_id, t.attempt_id, t.order_id,
      t.reported_by_confirmation_at, t.reported_by_statement_at, t.resolution
    from public.mpesa_transactions as t
    where t.transacted_at >= reconciliation_rows.since and t.transacted_at < reconciliation_rows.until
      -- The money of a payment test pays no order.
      and not exists (select from public.payments as k where k.id = t.payment_id and k.purpose = 'test')
  ),
  ours as (
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
  ),
  both_books as (
    select t.receipt as reported, t.received_cents as their_amount, t.reference, t.payer_name, t.payer_phone, t.transacted_at,
      t.reported_by_confirmation_at, t.reported_by_statement_at, t.resolution, t.attempt_id, t.order_id as named, t.payment_id as money
    from theirs as t
    union all
    select null, null, null, null, null, null, null, null, (
      -- For payments that only the shop knows, the last event is the decision.
      select nullif(e.kind, 'reopened') from public.reconciliation_events as e
      where e.payment_id = o.id order by e.id desc limit 1
    ), null, null, o.id
    from ours as o
  ),
  known as (
    select b.*, p.id as p_id, p.receipt as p_receipt, p.charge_cents as p_charge, p.status as p_status, p.method as p_method,
      p.needs_refund as p_needs_refund, p.refunded_at as p_refunded_at, p.completed_at as p_completed_at,
      p.created_at as p_created_at, p.updated_at as p_updated_at,
      o.id as o_id, o.order_number as o_number, o.tracking_number as o_tracking, o.customer_name as o_customer,
      (o.total_amount + 99) / 100 * 100 as o_charge, o.payment_status as o_payment_status,
      (
        select r.status from public.refunds as r
        where r.payment_id = p.id or r.receipt = coalesce(b.reported, p.receipt)
        order by r.status in ('failed', 'withdrawn'), r.created_at desc
        limit 1
      ) as r_status
    from both_books as b
    -- The attempt whose callback named a wrong amount is listed beside it.
    left join public.payments as p on p.id = coalesce(b.money, b.attempt_id)
    -- Less than the charge is listed beside the order that its reference names.
    left join public.orders as o on o.id = coalesce(p.order_id, b.named)
  ),
  compared as (
    select k.*,
      case
        when k.reported is not null and k.money is null then case when k.attempt_id is null and k.named is null then 'missing_here' else 'wrong_amount' end
        when k.p_status in ('review', 'failed') then 'wrong_amount'
        when k.p_needs_refund then 'double'
        when k.their_amount <> k.p_charge or k.p_charge <> k.o_charge then 'wrong_amount'
        when k.reported is not null then 'matched'
        when coverage @> tstzrange(k.p_created_at, k.p_completed_at + interval '10 minutes') then 'missing_there'
        else 'not_compared'
      end as verdict,
      coalesce(k.r_status, 'failed') not in ('failed', 'withdrawn') as is_refunding
    from known as k
  )
  select
    coalesce(c.reported, c.p_id::text),
    coalesce(c.transacted_at, c.p_completed_at, c.p_updated_at),
    c.verdict,
    case
      when c.verdict in ('matched', 'not_compared') or c.is_refunding or c.resolution in ('accepted', 'not_an_order') then false
      when c.verdict = 'double' then c.p_refunded_at is null
      when c.verdict = 'wrong_amount' and c.money is not null and c.p_status = 'completed'
        then c.their_amount <> c.p_charge or c.o_payment_status = 'needs_decision'
      else true
    end,
    coalesce(c.reported, c.p_receipt),
    case when c.p_status in ('completed', 'review') then c.p_charge end,
    c.their_amount,
    c.p_id,
    c.p_status,
    c.p_method,
    coalesce(c.p_needs_refund, false),
    c.p_refunded_at,
    c.r_status,
    c.o_id,
    c.o_number,
    c.o_tracking,
    c.o_customer,
    c.o_charge,
    c.o_payment_status,
    c.reference,
    c.payer_name,
    c.payer_phone,
    c.reported_by_confirmation_at,
    c.reported_by_statement_at,
    c.resolution
  from compared as c;
end
$$;

comment on function private.reconciliation_rows is
  'Payments of the shop and of M-PESA in a period, joined by receipt. kind: matched; missing_here (no payment has M-PESA''s receipt); missing_there (a statement covers the payment but lacks it); not_compared (no statement covers it yet); double; wrong_amount.';

create or replace function public.reconciliation_day(day date) returns jsonb
language plpgsql stable security definer
set search_path = ''
-- Looks the rows of a day up by key, however many there are of others and whatever the statistics say.
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  since timestamptz := reconciliation_day.day::timestamp at time zone 'Africa/Nairobi';
  until timestamptz := (reconciliation_day.day + 1)::timestamp at time zone 'Africa/Nairobi';
begin
  perform private.expect_staff();
  return jsonb_build_object(
    'day', reconciliation_day.day,
    'rows', coalesce((
      select jsonb_agg(to_jsonb(r) order by r.is_open desc, r.happened_at desc, r.id)
      from private.reconciliation_rows(since, until) as r
    ), '[]'),
    'is_covered', private.statement_coverage() @> tstzrange(since, greatest(since, least(until, now() - interval '2 hours'))),
    'missed', coalesce((
      select jsonb_agg(jsonb_build_object('from', s.missed_since, 'to', s.window_from) order by s.id)
      from public.statement_pulls as s
      where s.outcome = 'complete' and s.missed_since < until and s.window_from > since
    ), '[]')
  );
end
$$;

comment on function public.reconciliation_day is
  'For staff: both books of a day in Nairobi, open differences first; whether complete statements cover the day; and gaps that no statement covers.';

-- Who may call these functions
grant execute on function public.reconciliation_day, public.reconciliation_days, public.suggest_orders,
  public.resolve_difference
  to authenticated, service_role;

create or replace function private.read_list_search(search text, out words text[], out digits text, out order_ids uuid[])
language plpgsql stable set search_path = '' as $$
declare
  written text := trim(left(translate(lower(search), 'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu'), 200));
  typed_receipt text := upper(regexp_replace(written, '\s', '', 'g'));
begin
  -- ord1040, ORD 1040 and #1040 are ORD-1040.
  written := regexp_replace(regexp_replace(written, '\mord[\s.:#-]*(?=\d)', 'ord-', 'g'), '#(?=\d)', '', 'g');
  if coalesce(written, '') = '' then
    return;
  end if;
  order_ids := array(
    select found.id from (
      select private.order_of_reference(written) as id
      union
      select p.order_id from public.payments as p where p.receipt = typed_receipt
      union
      select coalesce(t.order_id, p.order_id)
      from public.mpesa_transactions as t
      left join public.payments as p on p.id = t.payment_id
      where t.receipt = typed_receipt
      union
      select p.order_id
      from public.refunds as r
      join public.payments as p on p.id = r.payment_id
      where r.refund_receipt = typed_receipt
    ) as found
    where found.id is not null
  );
  words := array(
    select '%' || regexp_replace(w.word, '([\\%_])', '\\\1', 'g') || '%'
    from regexp_split_to_table(written, '\s+') as w (word)
    where w.word <> ''
    limit 8
  );
  -- A phone number in any spelling, whole or in part: its digits without the prefix.
  if char_length(written) <= 60 and written !~ '[a-z]' then
    digits := regexp_replace(regexp_replace(written, '[^0-9]', '', 'g'), '^(00)?2540?([17])|^0([17])', '\2\3');
    digits := case when char_length(digits) >= 4 then '%' || digits || '%' end;
  end if;
end
$$;

comment on function private.read_list_search is
  'Parses a search in a staff list. words: LIKE patterns that must all match. digits: a LIKE pattern of a phone number that may match instead. order_ids: orders whose tracking number, reference or M-PESA receipt was typed completely; then only these match.';

create or replace function private.count_along_index(list text, by_index text) returns integer
language plpgsql stable
set search_path = ''
set jit = off
-- Stops at the limit: a bitmap would be made of all rows first.
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  count integer;
begin
  execute format(
    'select count(*) from (select from public.%I as %s where %s limit 10001) as bounded',
    list, case when list = 'orders' then 'o' else 'd' end, by_index
  ) into count;
  return count;
end
$$;

create or replace function private.count_in_list(
  list text, search text, status text, payment text, from_day date, until_day date, rider text, due text
) returns integer
language plpgsql stable set search_path = '' set jit = off as $$
declare
  asked record;
  count integer;
begin
  asked := private.list_conditions(list, search, status, payment, from_day, until_day, rider, due);
  if list = 'orders' and asked.by_row is null and asked.by_index = 'true' then
    select coalesce(sum(t.orders), 0) into count from private.daily_totals as t;
  elsif asked.by_row is null then
    count := private.count_along_index(list, asked.by_index);
  elsif asked.candidates is null then
    select coalesce(cardinality(w.found_ids), 0) into count
    from private.walk_list(list, asked.by_index, asked.by_row, null, null, 1001, private.short_search_rows()) as w;
  else
    execute format(
      'select count(*) from (select from (%s) as found limit 1001) as bounded',
      private.rows_of_candidates(list, asked.by_index, asked.by_row, asked.candidates)
    ) into count;
  end if;
  return count;
end
$$;

comment on function private.count_in_list is
  'Number of rows of a staff list that match the filters, at most 10001, which means more than 10,000. For a search or rider at most 1001. All orders are counted exactly.';

create or replace function public.count_orders(
  search text default '', status text default null, payment text default null, from_day date default null,
  until_day date default null, rider text default null, due text default null
) returns integer
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return private.count_in_list(
    'orders', count_orders.search, count_orders.status, count_orders.payment, count_orders.from_day,
    count_orders.until_day, count_orders.rider, count_orders.due
  );
end
$$;

comment on function public.count_orders is
  'For staff: number of orders that search_orders finds on all pages. 1001 means more than 1,000, for a search or rider; 10001 more than 10,000, for other filters.';

create or replace function public.count_deliveries(
  search text default '', status text default null, from_day date default null, until_day date default null,
  rider text default null, due text default null
) returns integer
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return private.count_in_list(
    'deliveries', count_deliveries.search, count_deliveries.status, null, count_deliveries.from_day,
    count_deliveries.until_day, count_deliveries.rider, count_deliveries.due
  );
end
$$;

comment on function public.count_deliveries is
  'For staff: number of deliveries that search_deliveries finds on all pages. 1001 means more than 1,000, for a search; 10001 more than 10,000, otherwise.';

create or replace function public.count_work() returns table (
  to_prepare integer, late integer, unpaid integer, refunds_due integer, to_assign integer, late_deliveries integer
)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return query select
    private.count_in_list('orders', null, null, null, null, null, null, 'prepare'),
    private.count_in_list('orders', null, null, null, null, null, null, 'late'),
    private.count_in_list('orders', null, null, 'unpaid', null, null, null, null),
    private.count_in_list('orders', null, null, 'refund_due', null, null, null, null),
    private.count_in_list('deliveries', null, 'pending', null, null, null, null, null),
    private.count_in_list('deliveries', null, null, null, null, null, null, 'late');
end
$$;

comment on function public.count_work is
  'For staff: numbers of orders and deliveries that need work, by kind. 10001 means more than 10,000. One row.';

-- Who may call these functions
grant execute on function public.search_orders, public.count_orders, public.search_deliveries,
  public.count_deliveries, public.count_work, public.recent_riders
  to authenticated, service_role;

-- Figures that change with what they count, in the same transaction: summing up all orders would take longer with each.
create table private.daily_totals (
  id bigint generated always as identity primary key,
  day date not null,
  orders bigint not null default 0,
  revenue_cents bigint not null default 0,
  received_cents bigint not null default 0
);

comment on table private.daily_totals is
  'Orders and money per day in Nairobi, in as many rows for a day as transactions changed it at once: each takes a row that no other has locked.';

comment on column private.daily_totals.day is 'When orders were placed and money moved; -infinity for money without a time.';

comment on column private.daily_totals.revenue_cents is 'Total of the orders that were placed, paid or not.';

comment on column private.daily_totals.received_cents is 'What arrived for orders, less what was sent back.';

alter table private.daily_totals enable row level security;

create index daily_totals_by_day on private.daily_totals (day);

create or replace function private.add_to_day(moment timestamptz, orders bigint, revenue_cents bigint, received_cents bigint) returns void
language plpgsql
set search_path = ''
set enable_seqscan = off
as $$
declare
  of_day date := coalesce(private.nairobi_day(moment), '-infinity');
begin
  update private.daily_totals as t
  set orders = t.orders + add_to_day.orders,
      revenue_cents = t.revenue_cents + add_to_day.revenue_cents,
      received_cents = t.received_cents + add_to_day.received_cents
  where t.id = (select free.id from private.daily_totals as free where free.day = of_day limit 1 for update skip locked);
  if not found then
    insert into private.daily_totals (day, orders, revenue_cents, received_cents)
    values (of_day, add_to_day.orders, add_to_day.revenue_cents, add_to_day.received_cents);
  end if;
end
$$;

comment on function private.add_to_day(timestamptz, bigint, bigint, bigint) is
  'Adds to the figures of a day. Never waits for another transaction.';

create or replace function private.count_order(old public.orders, new public.orders) returns void
language plpgsql
set search_path = ''
as $$
begin
  if (old.created_at, old.total_amount) is not distinct from (new.created_at, new.total_amount) then
    return;
  end if;
  if old.id is not null then
    perform private.add_to_day(old.created_at, -1, -old.total_amount, 0);
  end if;
  if new.id is not null then
    perform private.add_to_day(new.created_at, 1, new.total_amount, 0);
  end if;
end
$$;

comment on function private.count_order(public.orders, public.orders) is
  'Updates daily_totals with an order that was changed or deleted (new is null). New orders are counted per statement.';

create or replace function private.count_payment(old public.payments, new public.payments) returns void
language plpgsql
set search_path = ''
as $$
declare
  before bigint := case when old.status = 'completed' and old.purpose = 'order' then old.charge_cents else 0 end;
  after bigint := case when new.status = 'completed' and new.purpose = 'order' then new.charge_cents else 0 end;
begin
  if (before, old.completed_at) is not distinct from (after, new.completed_at) then
    return;
  end if;
  if before <> 0 then
    perform private.add_to_day(old.completed_at, 0, 0, -before);
  end if;
  if after <> 0 then
    perform private.add_to_day(new.completed_at, 0, 0, after);
  end if;
end
$$;

comment on function private.count_payment(public.payments, public.payments) is
  'Updates daily_totals with a payment that was changed or deleted (new is null). New payments are counted per statement.';

create or replace function private.count_refund(old public.refunds, new public.refunds) returns void
language plpgsql
set search_path = ''
as $$
declare
  before bigint := case when old.status = 'completed' and private.is_for_order(old.payment_id) then old.refund_cents else 0 end;
  after bigint := case when new.status = 'completed' and private.is_for_order(new.payment_id) then new.refund_cents else 0 end;
begin
  if (before, old.completed_at) is not distinct from (after, new.completed_at) then
    return;
  end if;
  if before <> 0 then
    perform private.add_to_day(old.completed_at, 0, 0, before);
  end if;
  if after <> 0 then
    perform private.add_to_day(new.completed_at, 0, 0, -after);
  end if;
end
$$;

comment on function private.count_refund(public.refunds, public.refunds) is
  'Updates daily_totals with a refund that was added (old is null) or changed.';

create or replace function private.is_for_order(payment_id uuid) returns boolean
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
begin
  -- A refund may move to a payment that is just being added.
  return is_for_order.payment_id is not null
    and not exists (select from public.payments as p where p.id = is_for_order.payment_id and p.purpose = 'test');
end
$$;

comment on function private.is_for_order(uuid) is 'Whether a payment is for an order, and no test.';

create or replace function public.daily_figures(days integer default 30) returns table (day date, page_views bigint, orders bigint)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  today date := (now() at time zone 'Africa/Nairobi')::date;
  first_day date := today - least(greatest(coalesce(daily_figures.days, 30), 1), 366) + 1;
begin
  perform private.expect_staff();
  return query
  with seen as (
    select v.day, sum(v.views) as count from public.page_views as v where v.day >= first_day group by 1
  ), placed as (
    select t.day, sum(t.orders) as count from private.daily_totals as t where t.day >= first_day group by 1
  )
  select d.day::date, coalesce(seen.count, 0)::bigint, coalesce(placed.count, 0)::bigint
  from generate_series(first_day::timestamp, today::timestamp, interval '1 day') as d (day)
  left join seen on seen.day = d.day::date
  left join placed on placed.day = d.day::date
  order by 1;
end
$$;

comment on function public.daily_figures is
  'For staff: page views and orders of the last days in Nairobi, including today and days without any.';

create or replace function public.dashboard_figures() returns table (
  products bigint, orders bigint, inquiries bigint, revenue bigint, received bigint, received_this_week bigint,
  received_today bigint
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  today date := private.nairobi_day(now());
  monday date := date_trunc('week', today::timestamp)::date;
begin
  perform private.expect_staff();
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
  'For staff: active products, orders, inquiries, and money in cents. revenue: total of all orders, paid or not (specification §7). received: money for orders minus refunds, by its time; days of Nairobi, weeks from Monday.';

grant execute on function public.daily_figures, public.system_status, public.dashboard_figures to authenticated;

create or replace function private.after_product_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'INSERT' then
    perform private.update_product_search(null, new);
    perform private.count_active_products(null, new);
    perform private.announce_product_change(null, new);
    return null;
  elsif tg_op = 'DELETE' then
    perform private.update_product_search(old, null);
    perform private.count_active_products(old, null);
    perform private.announce_product_change(old, null);
    return null;
  end if;
  if (old.id, old.name, old.tagline, old.description, old.category, old.brand, old.is_active, old.created_at,
      old.previous_price is null)
    is distinct from
    (new.id, new.name, new.tagline, new.description, new.category, new.brand, new.is_active, new.created_at,
      new.previous_price is null)
  then
    perform private.update_product_search(old, new);
    perform private.count_active_products(old, new);
  end if;
  -- Of the stock, pages only show whether there is any.
  if (old.name, old.slug, old.tagline, old.description, old.price, old.previous_price, old.image_url, old.category,
      old.brand, old.is_active, old.home_section, old.home_position, old.stock_quantity = 0)
    is distinct from
    (new.name, new.slug, new.tagline, new.description, new.price, new.previous_price, new.image_url, new.category,
      new.brand, new.is_active, new.home_section, new.home_position, new.stock_quantity = 0)
  then
    perform private.announce_product_change(old, new);
  end if;
  return null;
end
$$;

create or replace function private.after_order_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'INSERT' then
    perform private.record_order_events(null, new);
    return null;
  elsif tg_op = 'DELETE' then
    delete from public.order_events as e where e.order_id = old.id;
    delete from public.outbox_messages as m where m.order_id = old.id;
    perform private.count_order(old, null);
    return null;
  end if;
  perform private.count_order(old, new);
  if (old.status, old.payment_status, old.reserved_until is null)
    is distinct from (new.status, new.payment_status, new.reserved_until is null)
  then
    perform private.count_held_units(old, new);
  end if;
  if old.payment_status in ('paid', 'needs_decision') and new.payment_status = 'refunded' then
    perform private.record_refund_of_order(new);
  end if;
  if (old.status, old.payment_status) is distinct from (new.status, new.payment_status) then
    perform private.queue_messages_of_order(old, new);
    perform private.notify_order_followers(new);
  end if;
  perform private.record_order_events(old, new);
  if old.status <> new.status and current_setting('private.is_undoing', true) is distinct from 'yes' then
    perform private.move_delivery_with_order(old, new);
  end if;
  return null;
end
$$;

-- Per statement: one that adds many rows updates the figures of a day once.
create or replace function private.after_orders_added() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  perform private.add_to_day(min(a.created_at), count(*), sum(a.total_amount), 0)
  from added as a
  group by private.nairobi_day(a.created_at);
  return null;
end
$$;

create trigger orders_after_insert after insert on public.orders
  referencing new table as added
  for each statement execute function private.after_orders_added();

create or replace function private.after_payment_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op <> 'INSERT' then
    perform private.count_payment(old, new);
  end if;
  if tg_op = 'DELETE' then
    return null;
  end if;
  -- A test pays no order; it only proves that prompts work.
  if new.purpose = 'test' then
    if tg_op = 'UPDATE' and old.status <> new.status and new.status = 'completed' then
      perform private.end_prompt_pause();
    end if;
    return null;
  end if;
  if tg_op = 'INSERT' then
    if new.method = 'prompt' and new.status = 'initiating' then
      perform private.queue_link_with_prompt(new);
    end if;
    if new.status in ('initiating', 'processing') then
      perform private.notify_followers_of_order(new.order_id);
    end if;
    perform private.record_payment_events(null, new);
    return null;
  end if;
  if old.status <> new.status and new.method = 'prompt' and new.status in ('completed', 'failed') then
    perform private.pause_prompts(new);
  end if;
  if new.refunded_at is not null and (old.refunded_at is null or (old.needs_refund and not new.needs_refund)) then
    perform private.refund_order_of_payment(new);
  end if;
  if old.refunded_at is distinct from new.refunded_at or (old.status <> new.status and (
    old.status in ('review', 'unresolved') or new.status in ('review', 'unresolved', 'failed') or new.needs_refund
  )) then
    perform private.notify_followers_of_order(new.order_id);
  end if;
  perform private.record_payment_events(old, new);
  return null;
end
$$;

create trigger payments_after_status_change after insert or update or delete on public.payments
  for each row execute function private.after_payment_change();

create or replace function private.after_payments_added() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  perform private.add_to_day(min(a.completed_at), 0, 0, sum(a.charge_cents))
  from added as a
  where a.status = 'completed' and a.purpose = 'order'
  group by private.nairobi_day(a.completed_at);
  return null;
end
$$;

create trigger payments_after_insert after insert on public.payments
  referencing new table as added
  for each statement execute function private.after_payments_added();

create or replace function private.after_refund_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'DELETE' then
    perform private.count_refund(old, null);
    return null;
  end if;
  perform private.count_refund(old, new);
  -- A refund that got its payment later has been recorded.
  if tg_op = 'UPDATE' and old.payment_id is distinct from new.payment_id then
    return null;
  end if;
  if tg_op = 'INSERT' and new.payment_id is not null then
    perform private.record_refund_in_reconciliation(new);
  end if;
  if new.payment_id is not null then
    perform private.notify_followers_of_order(p.order_id) from public.payments as p where p.id = new.payment_id;
  end if;
  if tg_op = 'INSERT' then
    perform private.record_refund_events(null, new);
    return null;
  end if;
  perform private.record_refund_events(old, new);
  if old.status <> new.status and new.status in ('failed', 'withdrawn') then
    perform private.reopen_transaction_of_refund(new);
  end if;
  return null;
end
$$;

create trigger refunds_after_change after insert or update of status, payment_id or delete on public.refunds
  for each row execute function private.after_refund_change();

insert into private.catalogue_counts (category, brand, products)
select coalesce(p.category, ''), coalesce(p.brand, ''), count(*) from public.products as p where p.is_active group by 1, 2;

insert into private.daily_totals (day, orders, revenue_cents, received_cents)
select k.day, sum(k.orders), sum(k.revenue_cents), sum(k.received_cents)
from (
  select private.nairobi_day(o.created_at), 1, o.total_amount, 0 from public.orders as o
  union all
  select coalesce(private.nairobi_day(p.completed_at), '-infinity'), 0, 0, p.charge_cents
  from public.payments as p where p.status = 'completed' and p.purpose = 'order'
  union all
  select coalesce(private.nairobi_day(r.completed_at), '-infinity'), 0, 0, -r.refund_cents
  from public.refunds as r
  join public.payments as p on p.id = r.payment_id and p.purpose = 'order'
  where r.status = 'completed'
) as k (day, orders, revenue_cents, received_cents)
group by k.day;
