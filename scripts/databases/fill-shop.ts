// Fills a migrated database with the rows of a shop that has been open for a long time: for benchmarks and tests of large shops.
import { openPglite } from '@jani-juice/backend/pglite';
import { openPostgresql } from '@jani-juice/backend/postgresql';

export interface ShopSize {
  orders: number;
  products: number;
  /** Orders per day, up to now. A larger shop of the same rate has more days. */
  ordersPerDay: number;
}

// What a row contains follows from its number, so that two databases of a size are equal.
const functions = `
  create schema filling;
  create function filling.draw(n bigint, most integer, column_seed integer) returns integer language sql immutable
    return (abs(hashint8extended(n, column_seed)) % most)::integer;
  create function filling.one_of(words text[], n bigint, column_seed integer) returns text language sql immutable
    return words[1 + filling.draw(n, cardinality(words), column_seed)];
  create function filling.words_of(kind text) returns text[] language sql immutable
    return string_to_array(case kind
      when 'first' then 'Amina Achieng Akinyi Atieno Baraka Brian Caroline Chebet Cynthia Daniel David Dennis Diana Edwin Elijah Esther Eunice Faith Felix Grace Hassan Halima Irene Jackline James Jane Joseph Joy Juma Kamau Kevin Kipchoge Leah Lilian Lucy Mary Mercy Michael Moses Mutua Mwende Naliaka Nancy Njeri Nyambura Odhiambo Otieno Pauline Peter Purity Rose Ruth Salim Samuel Sharon Stephen Teresa Wambui Wanjiku Zainab'
      when 'last' then 'Abdi Achieng Barasa Chebet Chepkoech Gachanja Gathoni Githinji Hussein Imani Kamau Karanja Kariuki Kibet Kilonzo Kimani Kipkemboi Kiplagat Kiprop Koech Korir Langat Macharia Maina Mbugua Mohamed Muthoni Mutiso Mutua Mwangi Mwikali Nduta Ngugi Njoroge Nyaga Obiero Ochieng Odera Odhiambo Okoth Omondi Onyango Opiyo Otieno Owino Rotich Ruto Simiyu Wafula Wairimu Wambua Wangari Wanjala Wanyama Waweru Wekesa'
      when 'place' then 'Westlands Kilimani Karen Lavington Kileleshwa Parklands Ruaka Kasarani Embakasi Donholm Buruburu Langata Roysambu Ngong Rongai Syokimau Kitengela Juja Thika Kikuyu'
      when 'flavour' then 'Mango,Passion,Tamarind,Hibiscus,Watermelon,Pineapple,Ginger,Beetroot,Guava,Orange,Avocado,Baobab'
      when 'brand' then 'Embu Fresh,Dusk Energy,Meru Gold,Coast Press,Rift Roots,Nyeri Orchard,Kisumu Splash,Lamu Breeze,Tana Valley,Aberdare'
      when 'rider' then 'Kevin Otieno,Brian Mwangi,Moses Kiprop,Salim Juma,Dennis Wafula,James Mutua,Felix Ochieng,Edwin Kariuki'
      else 'fresh pressed slowly from ripe fruit that farmers near the shop pick in the morning and bring to town on the same day without added sugar or colour only a little lime and honey shake it well keep it cold and drink it within three days goes well with grilled fish chapati or a quiet afternoon made in small batches by people who know their trees bottle glass litre carton family size sweet sour bright smooth thick light'
    end, case when kind in ('flavour', 'brand', 'rider') then ',' else ' ' end);
  create function filling.text_of(n bigint, words integer) returns text language sql immutable
    return (select string_agg(filling.one_of(filling.words_of('text'), n * 1000 + w, 7), ' ') from generate_series(1, words) as w);
  create function filling.id(kind integer, n bigint) returns uuid language sql immutable
    return (lpad(to_hex(kind), 8, '0') || '-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid;
  create function filling.receipt(prefix text, n bigint) returns text language sql immutable
    return prefix || lpad(upper(to_hex(n)), 7, '0');`;

// Their search index and counts come from the triggers.
const products = ({ products }: ShopSize) => `
  insert into public.categories (name) select unnest(filling.words_of('flavour')) on conflict do nothing;
  insert into public.products (id, name, slug, tagline, description, category, brand, price, stock_quantity, created_at)
  select filling.id(1, n), p.brand || ' ' || p.flavour || ' ' || filling.one_of(filling.words_of('text'), n, 3) || ' ' || n,
    'drink-' || n, filling.text_of(n, 6), filling.text_of(n, 60 + filling.draw(n, 80, 4)), p.flavour, p.brand,
    100 * (100 + filling.draw(n, 1400, 5)), 1000000, now() - (n % 900) * interval '1 day'
  from generate_series(1, ${products}) as n
  cross join lateral (
    select filling.one_of(filling.words_of('flavour'), n, 1) as flavour, filling.one_of(filling.words_of('brand'), n, 2) as brand
  ) as p;
  insert into public.price_changes (product_id, product_name, from_cents, to_cents, changed_at)
  select p.id, p.name, p.price + 1000, p.price, p.created_at from public.products as p;`;

// Order n is the n-th newest. Of 100 orders 90 are paid, 7 were never paid, and 3 were refunded. Personal data is as the job leaves it that
// deletes it after its retention period. The messages that wait are of the oldest orders.
const facts = ({ orders, products, ordersPerDay }: ShopSize) => `
  create table filling.facts as
  select n, filling.id(2, n) as id, filling.id(3, n) as payment_id, c.customer, a.at,
    filling.one_of(filling.words_of('first'), c.customer, 1) || ' ' || filling.one_of(filling.words_of('last'), c.customer, 2) as name,
    '+2547' || lpad(filling.draw(c.customer, 100000000, 3)::text, 8, '0') as phone, 'customer.' || c.customer || '@mail.example' as email,
    1 + filling.draw(n, 2, 4) as items, filling.draw(n, ${products}, 5) + 1 as product,
    filling.draw(n, 100, 6) as lot,
    case when filling.draw(n, 100, 6) < 90 then 'paid' when filling.draw(n, 100, 6) < 97 then 'unpaid' else 'refunded' end as state,
    n > 2 * ${ordersPerDay} as is_old, r.is_reduced, r.is_reduced or a.at < now() - interval '24 months' as is_anonymous,
    a.at < now() - interval '90 days' and n <= ${orders - 20} as is_unread, n > ${orders - 20} as is_waiting
  from generate_series(1, ${orders}) as n
  cross join lateral (select now() - n * interval '1 day' / ${ordersPerDay} as at) as a
  cross join lateral (select filling.draw(n, 100, 6) between 90 and 96 and a.at < now() - interval '30 days' as is_reduced) as r
  -- A customer orders about five times.
  cross join lateral (select filling.draw(n, ${Math.ceil(orders / 5)}, 8) as customer) as c;
  create unique index on filling.facts (n);`;

const rows = ({ orders }: ShopSize) => `
  insert into public.orders
    (id, order_number, tracking_number, customer_name, customer_email, customer_phone, shipping_address, status, delivery_fee,
     total_amount, payment_method, payment_status, created_at, updated_at, anonymised_at)
  select f.id, 'ORD-' || (1000000 + ${orders} - f.n), 'JJ-' || to_char(f.at at time zone 'Africa/Nairobi', 'YYYYMMDD') || '-' || (100000 + f.n % 900000),
    case when f.is_anonymous then 'Anonymised' else f.name end, case when f.is_anonymous then '' else f.email end,
    case when f.is_anonymous then '' else f.phone end,
    case when f.is_anonymous then '' else filling.one_of(filling.words_of('place'), f.customer, 1) || ', house ' || f.customer % 400 end,
    case
      when f.state <> 'paid' then 'cancelled' when f.is_old then 'delivered'
      else filling.one_of('{pending,processing,shipped,delivered}', f.n, 2)
    end,
    100, 100 + f.items * 95000, case when f.state = 'unpaid' then 'pending' else 'mpesa' end, f.state, f.at, f.at,
    case when f.is_anonymous then now() end
  from filling.facts as f;
  insert into public.order_items (order_id, product_id, product_name, quantity, unit_price, created_at)
  select f.id, p.id, p.name, 1, 95000, f.at
  from filling.facts as f cross join lateral generate_series(1, f.items) as i
  join public.products as p on p.id = filling.id(1, 1 + (f.product + i) % (select count(*) from public.products where slug like 'drink-%'))
  where not f.is_reduced;
  -- Each order took its units; those of an order that was not paid, or was refunded, came back. Staff count the first drink once for ten
  -- orders: its history grows with the shop. It begins before the orders and ends with the stock.
  update public.stock_changes set changed_at = (select min(f.at) from filling.facts as f) - interval '1 day';
  with moves as (
    select filling.id(1, 1 + (f.product + i) % (select count(*) from public.products where slug like 'drink-%')) as product_id,
      f.id as order_id, m.at, m.units, m.cause
    from filling.facts as f cross join lateral generate_series(1, f.items) as i
    cross join lateral (values
      (f.at, -1, 'ordered'),
      (f.at + interval '15 minutes', 1, case f.state when 'unpaid' then 'reservation_ended' when 'refunded' then 'refunded' end)
    ) as m (at, units, cause)
    where m.cause is not null
    union all
    select filling.id(1, 1), null, f.at + interval '1 minute', case when f.n % 20 = 0 then 1 else -1 end, 'edited'
    from filling.facts as f where f.n % 10 = 0
  )
  insert into public.stock_changes (product_id, order_id, changed_at, from_units, to_units, cause)
  select s.product_id, s.order_id, s.at, s.after - s.units, s.after, s.cause
  from (
    select m.*, p.stock_quantity + sum(m.units) over (
      partition by m.product_id order by m.at, m.order_id rows unbounded preceding
    ) as after
    from moves as m join public.products as p on p.id = m.product_id
  ) as s
  order by s.at, s.order_id;
  update public.products as p set stock_quantity = last.to_units
  from (
    select distinct on (c.product_id) c.product_id, c.to_units from public.stock_changes as c order by c.product_id, c.id desc
  ) as last
  where last.product_id = p.id;
  insert into private.order_keys (idempotency_key, request_hash, order_id, access_key, created_at)
  select filling.id(4, f.n), md5(f.n::text), f.id, md5('access' || f.n), f.at from filling.facts as f where not f.is_reduced;

  insert into public.payments
    (id, order_id, phone, charge_cents, status, checkout_request_id, receipt, completed_at, refunded_at, created_at, updated_at,
     result_code, result_description, ended_by, method)
  select f.payment_id, f.id, case when f.lot % 10 = 3 or f.is_anonymous then '' else f.phone end, 100 + f.items * 95000,
    case when f.state = 'unpaid' then 'failed' else 'completed' end, case when f.lot % 10 <> 3 then 'ws_CO_' || f.n end,
    case when f.state <> 'unpaid' then filling.receipt('UKA', f.n) end, case when f.state <> 'unpaid' then f.at end,
    case when f.state = 'refunded' then f.at end, f.at, f.at, case when f.state = 'unpaid' then '1032' else '0' end,
    'As M-PESA describes it', case when f.state = 'unpaid' then 'customer' end,
    case when f.lot % 10 = 3 and f.state <> 'unpaid' then 'till' else 'prompt' end
  from filling.facts as f;
  -- A tenth of the payments had an attempt before that failed.
  insert into public.payments
    (order_id, phone, charge_cents, status, checkout_request_id, created_at, updated_at, result_code, result_description, ended_by)
  select f.id, case when f.is_anonymous then '' else f.phone end, 100 + f.items * 95000, 'failed', 'ws_CO_first_' || f.n, f.at - interval '2 minutes', f.at - interval '1 minute',
    '1032', 'Request cancelled by user', 'customer'
  from filling.facts as f where f.lot < 10;
  insert into private.payment_secrets (payment_id, callback_secret) select p.id, md5('secret' || p.id) from public.payments as p;
  insert into public.mpesa_transactions
    (receipt, received_cents, reference, payer_phone, payer_name, transacted_at, reported_by_confirmation_at, reported_by_statement_at,
     payment_id, created_at)
  select p.receipt, p.charge_cents, f.phone, '2547 ***** ' || right(f.phone, 3), upper(f.name), f.at, f.at, f.at + interval '20 minutes', p.id, f.at
  from filling.facts as f join public.payments as p on p.id = f.payment_id where p.receipt is not null;
  -- Money that belongs to no order; staff resolved what is old.
  insert into public.mpesa_transactions
    (receipt, received_cents, reference, payer_name, transacted_at, reported_by_statement_at, resolution, resolved_at)
  select filling.receipt('UKB', f.n), 50000, 'rent', upper(f.name), f.at, f.at, case when f.is_old then 'not_an_order' end, case when f.is_old then f.at end
  from filling.facts as f where f.n % 200 = 7;
  insert into public.reconciliation_events (receipt, kind, note, happened_at)
  select t.receipt, 'not_an_order', 'Rent of the shop', t.transacted_at from public.mpesa_transactions as t where t.resolution is not null;
  insert into public.payment_messages (payment_id, source, source_address, body, outcome, received_at, receipt)
  select p.id, m.source, '196.201.214.200', '{"Body":{"stkCallback":{"MerchantRequestID":"29115-34620561-1","ResultCode":0,"CallbackMetadata":{"Item":[{"Name":"Amount","Value":951},{"Name":"MpesaReceiptNumber","Value":"' || coalesce(p.receipt, '') || '"}]}}}}',
    m.outcome, p.created_at, p.receipt
  from public.payments as p
  cross join (values ('push', 'sent'), ('callback', 'paid'), ('confirmation', 'matched')) as m (source, outcome);
  insert into public.messages_to_check (source, problem, body, digest, receipt, received_cents, payment_id, received_at, resolution, resolved_at)
  select 'confirmation', 'unreadable', '{}', 'digest ' || f.n, filling.receipt('UKC', f.n), 95100, f.payment_id, f.at,
    case when f.is_old then 'not_a_payment' end, case when f.is_old then f.at end
  from filling.facts as f where f.n % 100 = 9;
  insert into public.refunds (payment_id, receipt, refund_cents, reason, method, status, refund_receipt, created_at, updated_at, sent_at, completed_at)
  select f.payment_id, filling.receipt('UKA', f.n), 100 + f.items * 95000, 'Sold out', 'reversal', 'completed', filling.receipt('UKR', f.n), f.at, f.at, f.at, f.at
  from filling.facts as f where f.state = 'refunded';
  insert into public.change_notes (payment_id, kind, amount_cents, note, noted_at)
  select f.payment_id, 'credit', 5000, 'Paid too much', f.at from filling.facts as f where f.state = 'paid' and f.n % 300 = 5;
  insert into public.statement_pulls (window_from, window_to, outcome, payments, new_payments, started_at, leased_until, finished_at)
  select p.at - interval '48 hours', p.at, 'complete', 80, 2, p.at, p.at, p.at
  from generate_series(greatest((select min(f.at) from filling.facts as f), now() - interval '190 days'), now(), interval '30 minutes') as p (at);

  insert into public.deliveries
    (order_id, delivery_status, delivery_person, delivery_phone, delivery_vehicle, pickup_time, delivery_time, created_at, updated_at)
  select o.id, case o.status when 'delivered' then 'delivered' when 'shipped' then 'in_transit' else 'pending' end,
    case when r.has_rider then filling.one_of(filling.words_of('rider'), f.n, 1) end, case when r.has_rider then '+25471234' || 1000 + filling.draw(f.n, 8, 1) end,
    case when r.has_rider then 'Motorbike' end, case when r.has_rider then f.at end, case when o.status = 'delivered' then f.at end, f.at, f.at
  from filling.facts as f join public.orders as o on o.id = f.id
  cross join lateral (select o.status in ('delivered', 'shipped') as has_rider) as r
  where f.state = 'paid';
  insert into public.order_events (order_id, kind, actor, details, happened_at)
  select f.id, e.kind, e.actor, e.details::jsonb, f.at + e.place * interval '1 minute'
  from filling.facts as f
  cross join (values
    (1, 'order_placed', 'customer', '{}'), (2, 'payment_prompted', 'customer', '{}'),
    (3, 'payment_completed', 'mpesa', '{}'), (4, 'payment_status_changed', 'mpesa', '{"from": "unpaid", "to": "paid"}'),
    (5, 'status_changed', 'staff', '{"from": "pending", "to": "delivered"}'), (6, 'delivery_status_changed', 'staff', '{"to": "delivered"}')
  ) as e (place, kind, actor, details)
  where f.state <> 'unpaid' or (e.place < 3 and not f.is_reduced)
  order by f.at + e.place * interval '1 minute';
  insert into public.outbox_messages
    (order_id, kind, channel, recipient, order_number, tracking_number, customer_name, status, attempts, subject, body, next_attempt_at,
     give_up_at, sending_since, sent_at, problem, created_at, updated_at, has_priority)
  select o.id, m.kind, w.channel, case when f.is_unread then '' when w.channel = 'mail' then f.email else f.phone end, o.order_number,
    o.tracking_number, case when f.is_unread then '' else f.name end, s.status, 1, case when not f.is_unread then 'Your order' end,
    case when not f.is_unread then 'Hello ' || f.name || ', thank you for your order ' || o.tracking_number || '. We will bring it today.' end,
    case when s.status = 'waiting' then f.at end, f.at + interval '1 day', f.at, case when s.status = 'sent' then f.at end,
    case when s.status = 'failed' then 'No such mailbox' end, f.at, f.at, m.kind <> 'order_received'
  from filling.facts as f join public.orders as o on o.id = f.id
  cross join (values ('order_received'), ('order_paid'), ('order_delivered')) as m (kind)
  cross join (values ('mail'), ('text')) as w (channel)
  cross join lateral (select case
    when f.is_waiting and m.kind = 'order_paid' then 'waiting' when f.lot between 50 and 52 and w.channel = 'mail' and m.kind = 'order_paid' then 'failed' else 'sent'
  end as status) as s
  where not f.is_reduced and (m.kind = 'order_received' or f.state = 'paid') and (m.kind <> 'order_received' or w.channel = 'mail');
  insert into private.outbox_queue (message_id, due_at, channel) select m.id, m.created_at, m.channel from public.outbox_messages as m where m.status = 'waiting';
  insert into private.messages_sent (day, channel, total, part)
  select d.day, w.channel, 50, part from (select distinct private.nairobi_day(f.at) as day from filling.facts as f) as d, (values ('mail'), ('text')) as w (channel), generate_series(0, 3) as part
  on conflict do nothing;

  insert into public.inquiries (name, email, phone, subject, message, is_read, created_at)
  select f.name, f.email, f.phone, filling.text_of(f.n, 5), filling.text_of(f.n, 60), f.is_old, f.at from filling.facts as f
  where f.n % 20 = 3 and f.at > now() - interval '12 months';
  insert into public.newsletter_subscriptions (email, created_at, confirmed_at)
  select 'reader.' || f.n || '@mail.example', f.at, f.at from filling.facts as f where f.n % 10 = 4;
  insert into public.personal_data_requests (kind, person_hash, counts, requested_at)
  select 'export', md5(f.phone), '{"orders": 1}', f.at from filling.facts as f where f.n % 500 = 11;
  insert into public.page_views (day, path, views)
  select d.day, v.path, 20
  from (select distinct private.nairobi_day(f.at) as day from filling.facts as f) as d
  cross join lateral (
    select unnest(array['/', '/shop', '/contact', '/delivery', '/track-order', 'other']) as path
    union all select '/shop/drink-' || p from generate_series(1, 24) as p
  ) as v;
  insert into public.backups (started_at, finished_at, outcome, file_name, size)
  select d.day, d.day, 'verified', 'backup-' || d.day, 1000000 from (select distinct private.nairobi_day(f.at) as day from filling.facts as f order by 1 desc limit 730) as d;`;

// Trigram indexes are built much faster than they are extended.
const dropTrigrams = `
  create table filling.dropped as
  select i.indexname, i.indexdef from pg_indexes as i
  where i.schemaname = 'public' and i.indexdef like '%USING gin%' and i.tablename <> 'products';
  do $$ declare name text; begin
    for name in select d.indexname from filling.dropped as d loop execute format('drop index public.%I', name); end loop;
  end $$;`;
const createTrigrams = `
  do $$ declare definition text; begin
    for definition in select d.indexdef from filling.dropped as d loop execute definition; end loop;
  end $$;`;

// As money-invariants.sql adds them up.
const sums = `
  insert into private.daily_totals (day, orders, revenue_cents, received_cents)
  select day, sum(orders), sum(revenue), sum(received)
  from (
    select private.nairobi_day(o.created_at) as day, 1 as orders, o.total_amount as revenue, 0 as received from public.orders as o
    union all
    select private.nairobi_day(p.completed_at), 0, 0, p.charge_cents from public.payments as p where p.status = 'completed'
    union all
    select private.nairobi_day(r.completed_at), 0, 0, -r.refund_cents from public.refunds as r where r.status = 'completed'
  ) as moved
  group by day;`;

/**
 * Fills a migrated and seeded database that has no orders.
 * @param execute runs statements as the owner of the database, all of them in one session
 */
export async function fillShop(execute: (script: string) => Promise<unknown>, size: ShopSize): Promise<void> {
  await execute(functions);
  await execute(products(size));
  // Millions of rows: their triggers would take an hour.
  await execute(
    `begin; set local session_replication_role = replica;
     ${dropTrigrams} ${facts(size)} ${rows(size)} ${sums} ${createTrigrams}
     commit`,
  );
  await execute('drop schema filling cascade');
}

/** Fills an embedded database that no process has open, with the statistics that the shop gathers within minutes. */
export async function fillFolder(folder: string, size: ShopSize): Promise<void> {
  const database = await openPglite(folder, { isDurable: false });
  await fillShop((script) => database.execute(script), size);
  await database.execute('analyze');
  await database.close();
}

/** Fills a database of a server, and gathers the statistics that it would gather within minutes. */
export async function fillServer(url: string, size: ShopSize): Promise<void> {
  const database = openPostgresql(url, { poolSize: 1 });
  await fillShop((script) => database.execute(script), size);
  await database.execute('vacuum analyze');
  await database.close();
}
