-- Figures: page views, sums for the dashboard, backups, system status and metrics.

create table public.page_views (
  day date not null,
  path text not null,
  views integer not null,
  constraint "one count per day and page" primary key (day, path),
  constraint "a view was counted" check (views > 0)
);
comment on table public.page_views is 'Views of each storefront page per day in Nairobi, without any data of the visitor.';
alter table public.page_views enable row level security;
grant select on public.page_views to authenticated;
create policy "staff read the page views" on public.page_views for select to authenticated using ((select public.may('figures')));

create table public.backups (
  id bigint generated always as identity primary key,
  started_at timestamptz not null,
  finished_at timestamptz not null default now(),
  outcome text not null,
  file_name text,
  size bigint,
  problem text,
  check_requested_at timestamptz,
  checked_at timestamptz,
  check_problem text,
  constraint "an outcome of a backup is known" check (outcome in ('verified', 'readable', 'failed', 'impossible')),
  constraint "a backup that was made has a file" check ((outcome in ('verified', 'readable')) = (file_name is not null)),
  constraint "a backup that was not made says why" check ((outcome in ('failed', 'impossible')) = (problem is not null))
);
comment on table public.backups is
  'Backup attempts. verified: restored elsewhere and compared; readable: read completely, without a restore; failed; impossible: a program is missing.';
comment on column public.backups.size is 'In bytes.';
comment on column public.backups.check_requested_at is 'When staff last asked to restore it once more, as a check.';
comment on column public.backups.checked_at is 'When that check last ended. Null: never since it was made.';
comment on column public.backups.check_problem is 'What the last check found. Null: nothing.';
alter table public.backups enable row level security;
grant select on public.backups to authenticated;
create policy "staff read every backup" on public.backups for select to authenticated using ((select public.may('settings')));

create function private.counted_page(path text) returns text
language sql stable set search_path = '' as $$
  -- Only existing pages have their own rows, so that requests cannot fill the table.
  select case
    when page in ('/', '/shop', '/contact', '/delivery', '/newsletter', '/track-order') then page
    -- Tracking numbers are not counted.
    when page like '/track-order/%' then '/track-order'
    when page ~ '^/(admin|api)(/|$)' then null
    when exists (select from public.products as p where page = '/shop/' || p.slug) then page
    when exists (select from public.categories as c where page = '/flavors/' || c.slug) then page
    when exists (select from public.brands as b where page = '/brands/' || b.slug) then page
    else 'other'
  end
  from (select coalesce(nullif(rtrim(counted_page.path, '/'), ''), '/') as page) as visited;
$$;
comment on function private.counted_page is
  'The page under which a view is counted: a storefront page; ''other'' for unknown paths; null for staff screens.';

create function public.record_page_views(views jsonb) returns void
language sql volatile security definer set search_path = '' as $$
  insert into public.page_views as counted (day, path, views)
  select private.nairobi_day(now()), private.counted_page(seen.path), sum(seen.views)::integer
  from jsonb_to_recordset(record_page_views.views) as seen (path text, views integer)
  where private.counted_page(seen.path) is not null and seen.views > 0
  group by 2
  -- Always in the same order, so that two processes cannot deadlock.
  order by 2
  on conflict (day, path) do update set views = counted.views + excluded.views;
$$;
comment on function public.record_page_views is 'Adds page views to today''s counts: [{"path": "/shop", "views": 3}, …].';

-- Totals that are updated in the transaction of each change: summing up all orders would take longer with every order.
create table private.daily_totals (
  id bigint generated always as identity primary key,
  day date not null,
  orders bigint not null default 0,
  revenue_cents bigint not null default 0,
  received_cents bigint not null default 0,
  failed_deliveries bigint not null default 0
);
comment on table private.daily_totals is
  'Orders and money per day in Nairobi, in as many rows for a day as transactions changed it at once: each takes a row that no other has locked.';
comment on column private.daily_totals.day is 'When orders were placed and money moved; -infinity for money without a time.';
comment on column private.daily_totals.revenue_cents is 'Total of the orders that were placed, paid or not.';
comment on column private.daily_totals.received_cents is 'What arrived for orders, less what was sent back.';
comment on column private.daily_totals.failed_deliveries is 'How often goods came back, by the day of that. Counted since the column exists.';
alter table private.daily_totals enable row level security;
create index daily_totals_by_day on private.daily_totals (day);

create type private.day_figures as (day date, orders bigint, revenue_cents bigint, received_cents bigint, failed_deliveries bigint);

create function private.figures_of(counted public.orders) returns private.day_figures
language sql immutable
return case when counted.id is not null then
  (private.nairobi_day(counted.created_at), 1, counted.total_amount, 0, 0)::private.day_figures
end;

create function private.figures_of(counted public.payments) returns private.day_figures
language sql immutable
-- No money came with credit.
return case when counted.status = 'completed' and counted.purpose = 'order' and counted.method <> 'credit' then
  (coalesce(private.nairobi_day(counted.completed_at), '-infinity'), 0, 0, counted.charge_cents, 0)::private.day_figures
end;

create function private.figures_of(counted public.refunds) returns private.day_figures
language sql stable
return case
  -- A refund may move to a payment that is just being added.
  when counted.status = 'completed' and counted.payment_id is not null and counted.method <> 'credit'
    and not exists (select from public.payments as p where p.id = counted.payment_id and p.purpose = 'test')
  then (coalesce(private.nairobi_day(counted.completed_at), '-infinity'), 0, 0, -counted.refund_cents, 0)::private.day_figures
end;

create function private.figures_of(counted public.change_notes) returns private.day_figures
language sql immutable
return case when counted.kind = 'returned' then
  (private.nairobi_day(counted.noted_at), 0, 0, -counted.amount_cents, 0)::private.day_figures
end;

create function private.count_change(old private.day_figures, new private.day_figures) returns void
language plpgsql set search_path = '' as $$
declare
  moved private.day_figures;
begin
  if old is not distinct from new then
    return;
  end if;
  foreach moved in array array[
    (old.day, -old.orders, -old.revenue_cents, -old.received_cents, -old.failed_deliveries)::private.day_figures, new
  ] loop
    continue when moved.day is null;
    update private.daily_totals as t
    set orders = t.orders + moved.orders,
        revenue_cents = t.revenue_cents + moved.revenue_cents,
        received_cents = t.received_cents + moved.received_cents,
        failed_deliveries = t.failed_deliveries + moved.failed_deliveries
    where t.id = (select free.id from private.daily_totals as free where free.day = moved.day limit 1 for update skip locked);
    if not found then
      insert into private.daily_totals (day, orders, revenue_cents, received_cents, failed_deliveries)
      values (moved.day, moved.orders, moved.revenue_cents, moved.received_cents, moved.failed_deliveries);
    end if;
  end loop;
end
$$;
comment on function private.count_change is
  'Replaces what a row counts in daily_totals; null: nothing. Never waits for another transaction.';

create function public.daily_figures(days integer default 30) returns table (
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

create function public.record_backup(
  started_at timestamptz, outcome text, file_name text default null, size bigint default null, problem text default null
) returns void
language sql volatile security definer set search_path = '' as $$
  insert into public.backups (started_at, outcome, file_name, size, problem)
  values (record_backup.started_at, record_backup.outcome, record_backup.file_name, record_backup.size, record_backup.problem);
  -- Stores about a year of two backups a day.
  delete from public.backups as b where b.id <= (select max(id) - 730 from public.backups);
$$;
comment on function public.record_backup is 'Records the outcome of a backup.';

create function public.request_backup() returns void
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

create function public.system_status() returns table (
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

create function public.dashboard_figures() returns table (
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

create function public.count_payments_since(since timestamptz default null) returns table (count integer, newest timestamptz)
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

-- Metrics for monitoring (docs/monitoring.md)

create function public.shop_metrics() returns table (metric text, label text, value double precision)
language sql stable security definer set search_path = '' as $$
  -- Each part reads a partial index or one end of an index, so that the cost does not grow with the data.
  select 'payments_open', known.status, (
    select count(*) from public.payments as p where p.purpose = 'order' and p.status = known.status and private.is_open_attempt(p.status)
  )::double precision
  from unnest(array['initiating', 'processing']) as known (status)
  union all
  select 'payments_in_review', null, count(*) from public.payments as p where p.purpose = 'order' and p.status = 'review'
  union all
  select 'payment_open_oldest_seconds', null, coalesce(extract(epoch from now() - min(p.created_at)), 0)
  from public.payments as p where p.purpose = 'order' and private.is_open_attempt(p.status)
  union all
  select 'payments_completed_last_day', null, count(*)
  from public.payments as p where p.purpose = 'order' and p.status = 'completed' and p.completed_at > now() - interval '1 day'
  union all
  select 'payment_last_completed_timestamp_seconds', null, coalesce(extract(epoch from max(p.completed_at)), 0)
  from public.payments as p where p.purpose = 'order' and p.status = 'completed'
  union all
  select 'transactions_without_payment', null, count(*)
  from public.mpesa_transactions as t where t.payment_id is null and t.resolution is null
  union all
  select 'messages_to_check', null, count(*) from public.messages_to_check as m where m.resolution is null
  union all
  select 'payment_messages_unprocessed', null, (
    select count(*) from public.payment_messages as m
    where m.source in ('callback', 'confirmation') and m.outcome is null and m.received_at < now() - interval '30 seconds'
  )
  union all
  select 'payment_message_last_timestamp_seconds', known.source, coalesce(extract(epoch from (
    -- Not where source = known.source: with statistics the planner would read all messages backwards for one of a rare source.
    select m.received_at
    from (select * from public.payment_messages as m where m.source >= known.source order by m.source, m.id desc limit 1) as m
    where m.source = known.source
  )), 0)
  from unnest(array['callback', 'confirmation', 'query', 'statement', 'reversal_result']) as known (source)
  union all
  select 'prompts_paused', null, count(*) from private.prompt_pause
  union all
  select 'refunds_open', known.status, (
    select count(*) from public.refunds as r
    where r.status = known.status and private.is_open_refund(r.status)
  )
  from unnest(array['requested', 'approved', 'sending', 'sent', 'unknown']) as known (status)
  union all
  select 'outbox_waiting', known.channel, (select count(*) from private.outbox_queue as q where q.channel = known.channel)
  from unnest(array['mail', 'text']) as known (channel)
  union all
  select 'outbox_oldest_due_seconds', known.channel, greatest(0, coalesce(extract(epoch from now() - (
    select min(q.due_at) from private.outbox_queue as q where q.channel = known.channel
  )), 0))
  from unnest(array['mail', 'text']) as known (channel)
  union all
  select 'outbox_failed_last_day', known.status, (
    select count(*) from public.outbox_messages as m
    where m.status = known.status and m.created_at > now() - interval '1 day'
  )
  from unnest(array['failed', 'unsure', 'over_budget']) as known (status)
  union all
  select 'messages_withheld', known.channel, private.withheld_messages(known.channel)
  from unnest(array['mail', 'text']) as known (channel)
  union all
  select 'backup_last_timestamp_seconds', null, coalesce(extract(epoch from max(b.finished_at)), 0)
  from public.backups as b where b.outcome in ('verified', 'readable')
$$;
comment on function public.shop_metrics is 'Metrics for monitoring: name, value of its label (null: none), value.';

-- Execution rights
grant execute on function public.request_backup to authenticated, service_role;
grant execute on function public.daily_figures, public.system_status, public.dashboard_figures,
  public.count_payments_since to authenticated;
grant execute on function public.record_page_views, public.record_backup, public.shop_metrics to service_role;
