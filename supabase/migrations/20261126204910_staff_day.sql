drop function public.count_work();

drop function private.delivery_status_for_order(text,text,text);

-- History of prices

create table public.price_changes (
  id bigint generated always as identity primary key,
  product_id uuid,
  product_name text,
  from_cents integer not null,
  to_cents integer not null,
  changed_by uuid,
  changed_by_email text,
  changed_at timestamptz not null default clock_timestamp(),
  constraint "a change of a price has its product's name" check ((product_id is null) = (product_name is null))
);

comment on table public.price_changes is
  'Changes of prices, and of the delivery fee (without a product). Append-only. It refers to no product, so that it survives one. changed_by_email: the email address at that time.';

alter table public.price_changes enable row level security;

revoke all on public.price_changes from anon, authenticated, service_role;

grant select on public.price_changes to authenticated, service_role;

create policy "staff read every price change" on public.price_changes
  for select to authenticated using ((select public.is_admin()));

create index price_changes_by_product on public.price_changes (product_id, id);

create trigger price_changes_before_change before update or delete on public.price_changes
  for each row execute function private.refuse_change('The history of prices is only added to');

create or replace function private.record_price_change(product_id uuid, product_name text, from_cents integer, to_cents integer) returns void
language sql volatile set search_path = '' as $$
  insert into public.price_changes (product_id, product_name, from_cents, to_cents, changed_by, changed_by_email)
  select record_price_change.product_id, record_price_change.product_name, record_price_change.from_cents,
    record_price_change.to_cents, (select auth.uid()), private.email_of((select auth.uid()))
  where record_price_change.from_cents <> record_price_change.to_cents;
$$;

create or replace function public.typical_price() returns integer
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return (select percentile_disc(0.5) within group (order by p.price) from public.products as p where p.is_active);
end
$$;

comment on function public.typical_price is 'For staff: the median price of active products in cents. Null without products.';

grant execute on function public.staff_settings, public.typical_price to authenticated, service_role;

create or replace function private.move_order_with_delivery(old public.deliveries, new public.deliveries) returns void
language plpgsql set search_path = '' as $$
declare
  new_status text := private.order_status_of_delivery(new.delivery_status);
  old_status text := private.order_status_of_delivery(old.delivery_status);
begin
  if new_status is not null then
    update public.orders as o
    set status = new_status, updated_at = now()
    where o.id = new.order_id and o.status <> 'cancelled' and private.shown_status(o.status) is distinct from new_status;
  elsif old_status is not null or new.delivery_status = 'failed' then
    -- A delivery that fails without a rider belongs to an order that was shipped without one.
    update public.orders as o
    set status = 'processing', updated_at = now()
    where o.id = new.order_id and private.shown_status(o.status) = coalesce(old_status, 'out_for_delivery')
      and o.payment_status <> 'refunded';
  end if;
end
$$;

create or replace function private.before_delivery_change() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  moment timestamptz := clock_timestamp();
  ordered public.orders;
begin
  -- Lock the order before the delivery: the transaction that has locked the order may change the delivery next.
  select * into ordered from public.orders as o where o.id = new.order_id for no key update;
  if tg_op = 'UPDATE' then
    -- Never the same time for two changes.
    new.updated_at := greatest(moment, old.updated_at + interval '1 microsecond');
    if current_setting('private.is_undoing', true) = 'yes' then
      return new;
    end if;
    new.pickup_time := old.pickup_time;
    new.delivery_time := old.delivery_time;
    if new.delivery_status = old.delivery_status then
      -- The order may have changed while this request waited for its lock.
      new.delivery_status := private.delivery_status_for_order(ordered, old.delivery_status, new.delivery_person);
      if new.delivery_status = old.delivery_status then
        return new;
      end if;
    elsif private.delivery_status_for_order(ordered, old.delivery_status, old.delivery_person) <> old.delivery_status
      and (private.is_called_off(ordered) or private.order_status_of_delivery(new.delivery_status) is null)
    then
      -- The order changed first. A status that changes the order still applies, unless the order is called off.
      new.delivery_status := private.delivery_status_for_order(ordered,
        case when private.is_called_off(ordered) then old.delivery_status else new.delivery_status end, new.delivery_person);
    elsif private.order_status_of_delivery(old.delivery_status) is null and new.delivery_status in ('pending', 'assigned')
      and not private.is_called_off(ordered)
    then
      -- A rider for an order that was shipped without one is on the way.
      new.delivery_status := private.delivery_status_for_order(ordered, new.delivery_status, new.delivery_person);
    end if;
  elsif new.delivery_status in ('pending', 'assigned') and not private.is_called_off(ordered) then
    new.delivery_status := private.delivery_status_for_order(ordered, new.delivery_status, new.delivery_person);
  end if;
  if new.delivery_status <> 'failed' and private.is_called_off(ordered) then
    if ordered.payment_status = 'refunded' then
      perform private.refuse(409, 'order_refunded', 'The money of this order was sent back. It can be neither shipped nor delivered');
    end if;
    perform private.refuse(409, 'delivery_of_cancelled_order', 'This order was cancelled. To deliver it after all, change the order first');
  end if;
  -- An earlier status clears later times.
  case new.delivery_status
    when 'picked_up' then
      new.pickup_time := moment;
      new.delivery_time := null;
    when 'delivered' then
      new.delivery_time := moment;
    when 'pending', 'assigned' then
      new.pickup_time := null;
      new.delivery_time := null;
    else
      new.delivery_time := null;
  end case;
  return new;
end
$$;

create or replace function private.is_called_off(ordered public.orders) returns boolean
language sql immutable
return ordered.status = 'cancelled' or (ordered.payment_status = 'refunded' and ordered.status <> 'delivered');

comment on function private.is_called_off is
  'Whether nothing of an order is to be delivered any more: it was cancelled, or its money was sent back before it was delivered.';

create or replace function private.delivery_status_for_order(ordered public.orders, delivery_status text, delivery_person text) returns text
language sql immutable
return case
  -- Whatever the rider had begun ends; what arrived has arrived.
  when private.is_called_off(ordered) then case when delivery_status = 'delivered' then 'delivered' else 'failed' end
  when ordered.status = 'delivered' then 'delivered'
  when private.shown_status(ordered.status) = 'out_for_delivery' then case
    when delivery_status in ('picked_up', 'in_transit') then delivery_status
    -- Shipped without a rider: it waits for one.
    when delivery_person is null then 'pending'
    else 'in_transit'
  end
  when delivery_status not in ('picked_up', 'in_transit', 'delivered') then delivery_status
  when delivery_person is null then 'pending'
  else 'assigned'
end;

comment on function private.delivery_status_for_order is
  'The status that a delivery gets from its order; unchanged if they agree.';

create or replace function private.move_delivery_with_order(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
declare
  delivery public.deliveries;
  new_status text;
begin
  -- Skips a locked delivery: the request that has it waits for this order, then reads it.
  select * into delivery from public.deliveries as d where d.order_id = new.id for no key update skip locked;
  if found then
    new_status := private.delivery_status_for_order(
      new,
      -- A reactivated order is delivered again.
      case when old.status = 'cancelled' and delivery.delivery_status = 'failed'
        then case when delivery.delivery_person is null then 'pending' else 'assigned' end
        else delivery.delivery_status
      end,
      delivery.delivery_person
    );
    update public.deliveries as d
    set delivery_status = new_status
    where d.id = delivery.id and d.delivery_status <> new_status;
  end if;
end
$$;

create or replace function private.record_status_change(order_id uuid, state_before jsonb) returns public.status_change
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  change_id uuid;
  change public.status_change;
begin
  delete from private.status_changes as c where c.id in (
    select old.id from private.status_changes as old where old.undo_until < now() for update skip locked
  );
  insert into private.status_changes (order_id, changed_by, undo_until, state_before, state_after)
  values (
    record_status_change.order_id, (select auth.uid()), now() + private.undo_window(),
    record_status_change.state_before, private.order_state(record_status_change.order_id)
  )
  returning id into change_id;
  change := (
    change_id, extract(epoch from private.undo_window())::integer,
    exists (
      select from public.outbox_messages as m
      join private.outbox_queue as q on q.message_id = m.id
      where m.order_id = record_status_change.order_id and private.is_status_message(m.kind)
        and m.attempts = 0 and private.is_message_true(m.order_id, m.kind)
    )
  )::public.status_change;
  perform private.note_answer(to_jsonb(change));
  return change;
end
$$;

comment on function private.record_status_change is
  'Stores what undo_status_change needs. Returns the result of the procedure that made the change.';

create or replace function private.work_step(order_status text, payment_status text, delivery_status text) returns text
language sql immutable
return case
  when payment_status <> 'paid' or order_status in ('cancelled', 'delivered') then null
  when delivery_status = 'failed' then 'failed'
  when private.shown_status(order_status) = 'out_for_delivery' then 'on_the_way'
  when delivery_status = 'assigned' then 'assigned'
  else 'prepare'
end;

comment on function private.work_step is
  'What a paid order waits for: prepare (in the shop, without a rider), assigned (its rider picks it up), on_the_way, or failed (its delivery failed: try again or refund). Null: nothing. Also of orders that were shipped without a rider, delivery_status is pending until one is assigned.';

-- Conditions read the row's own items and rider in a scalar subquery. With EXISTS PostgreSQL used a hashed subplan and read all items
-- of the shop for the few orders of a search.
create or replace function private.list_conditions(
  filters private.list_filters, out by_index text, out by_row text, out candidates text, out is_broad boolean
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
begin
  typed := private.read_list_search(filters.search);
  is_broad := true;

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
    else
      indexed := indexed || format('lower(d.delivery_person) = %L', rider_name);
    end if;
  end if;
  if cardinality(typed.order_ids) > 0 then
    checked := checked || format('o.id = any (%L::uuid[])', typed.order_ids);
    candidates := format('select unnest(%L::uuid[]) as id', typed.order_ids);
    is_broad := false;
  elsif typed.words is not null then
    checked := checked || format($sql$(%1$s || E'\n' || coalesce((
      select string_agg(%2$s, E'\n') from public.order_items as i where i.order_id = o.id), '')%3$s like all (%4$L::text[])%5$s)$sql$,
      order_text, item_text, case when not is_orders then format($sql$ || E'\n' || %s$sql$, rider_text) end, typed.words,
      case when typed.digits is not null then
        format(' or %s like %L', order_text, typed.digits)
        || case when is_orders then '' else format(' or %s like %L', rider_text, typed.digits) end
      end
    );
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
    -- Without longer parts only the newest rows are searched: candidates stay null, or are these rows and the orders with the digits.
    candidates := case
      when cardinality(in_order) > 0 then format('select o.id from public.orders as o where %s',
        (select string_agg(format('%s like %L', order_text, p.pattern), ' and ') from unnest(in_order) as p (pattern))
        || case when typed.digits is not null then format(' or %s like %L', order_text, typed.digits) else '' end)
      when cardinality(anywhere) > 0 then (
        select string_agg(format('(select i.order_id as id from public.order_items as i where %s like %L', item_text, p.pattern)
          || format(' union select o.id from public.orders as o where %s like %L', order_text, p.pattern)
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
    candidates := $sql$
      select o.id from public.orders as o where o.payment_status = 'needs_review'
      union
      select p.order_id from public.payments as p where p.status = 'review'$sql$;
    is_broad := false;
  end if;
  if is_orders and filters.payment = 'refund_due' then
    checked := checked || is_refund_due;
    candidates := $sql$
      select o.id from public.orders as o where o.payment_status = 'paid' and o.status = 'cancelled'
      union
      select p.order_id from public.payments as p where p.needs_refund and p.refunded_at is null and p.status = 'completed'$sql$;
    is_broad := false;
  end if;
  by_index := coalesce(nullif(array_to_string(indexed, ' and '), ''), 'true');
  by_row := nullif(array_to_string(checked, ' and '), '');
end
$$;

comment on function private.list_conditions is
  'The filters of a staff list, orders (o) or deliveries (d with their order o), as conditions in SQL. by_index: on the list''s own table, served by an index in the order of the list; by_row: all others, or null; candidates: a query for the ids of orders that may match, or null to scan only private.short_search_rows() rows; is_broad: whether the newest rows are scanned first.';

-- Under row level security the trigram indexes cannot be used, since LIKE is not leakproof. So these functions check the caller and
-- then read with their owner's rights.
create or replace function public.search_orders(
  search text default '', status text default null, payment text default null, from_day date default null,
  until_day date default null, rider text default null, due text default null,
  before_created_at timestamptz default null, before_id uuid default null, page_size integer default 50
) returns setof public.orders
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff();
  found_ids := private.find_in_list(
    ('orders', search, status, payment, from_day, until_day, rider, due), before_created_at, before_id, page_size
  );
  return query
    select o.* from public.orders as o where o.id = any (found_ids) order by o.created_at desc, o.id desc;
end
$$;

comment on function public.search_orders is
  'For staff: a page of orders, newest first, after the one named by before_created_at and before_id. search: words that must all match, ignoring case, in number, name, email, phone, address, area or products; or a phone number; or a complete tracking number or M-PESA receipt. status: shipped includes out_for_delivery. payment: paid, unpaid, needs_review, refund_due, refunded. from_day, until_day: in Nairobi. rider: name. due: late, or a step of private.work_step: prepare, assigned, on_the_way, failed.';

create or replace function public.count_work() returns table (
  to_prepare integer, on_the_way integer, failed integer, late integer, unpaid integer, refunds_due integer, to_assign integer,
  late_deliveries integer
)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return query select
    private.count_in_list(('orders', null, null, null, null, null, null, 'prepare')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'on_the_way')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'failed')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'late')),
    private.count_in_list(('orders', null, null, 'unpaid', null, null, null, null)),
    private.count_in_list(('orders', null, null, 'refund_due', null, null, null, null)),
    private.count_in_list(('deliveries', null, 'pending', null, null, null, null, null)),
    private.count_in_list(('deliveries', null, null, null, null, null, null, 'late'));
end
$$;

comment on function public.count_work is
  'For staff: numbers of orders and deliveries that need work, by kind. 10001 means more than 10,000. One row.';

-- Execution rights
grant execute on function public.search_orders, public.count_orders, public.search_deliveries, public.count_deliveries,
  public.count_work, public.recent_riders to authenticated, service_role;

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
    left join public.orders as o on o.id = p.order_id
    left join public.mpesa_transactions as t on t.payment_id = p.id
    where p.status = 'completed' and p.purpose = 'order' and p.completed_at >= since and p.completed_at < until
  ), other_day as (
    select coalesce(sum(p.charge_cents), 0) as cents
    from public.mpesa_transactions as t
    join public.payments as p on p.id = t.payment_id
    where t.transacted_at >= since and t.transacted_at < until and p.status = 'completed' and p.purpose = 'order'
      and not coalesce(p.completed_at >= since and p.completed_at < until, false)
  ), sent_back as (
    select coalesce(sum(r.refund_cents), 0) as cents
    from public.refunds as r
    join public.payments as p on p.id = r.payment_id
    where r.status = 'completed' and p.purpose = 'order' and r.completed_at >= since and r.completed_at < until
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
  'For staff: how the totals of a day in Nairobi follow from each other, in cents; steps that take away are negative. placed (orders placed, paid or not) + rounding (to whole shillings) + not_paid + paid_otherwise (paid without M-PESA) + other_amounts (paid twice, in parts, or in another amount) = received_for_orders, whenever; + paid_other_days + placed_other_days = received (payments completed on the day); + refunded = net_received, as in dashboard_figures; received + other_clock (M-PESA''s time is on another day) = booked, as in reconciliation_days. Included: delivery_fees of paid orders, in_review of received.';

grant execute on function public.daily_figures, public.system_status, public.dashboard_figures, public.day_totals to authenticated;

create or replace function private.after_product_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if (old.id, old.name, old.tagline, old.description, old.category, old.brand, old.is_active, old.created_at,
      old.previous_price is null)
    is distinct from
    (new.id, new.name, new.tagline, new.description, new.category, new.brand, new.is_active, new.created_at,
      new.previous_price is null)
  then
    perform private.update_product_search(old, new);
    perform private.count_active_products(old, new);
  end if;
  if tg_op = 'UPDATE' then
    perform private.record_price_change(new.id, new.name, old.price, new.price);
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

create or replace function private.after_settings_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if old is distinct from new then
    perform pg_catalog.pg_notify('page_changes', '{"table": "store_settings"}');
  end if;
  perform private.record_price_change(null, null, old.delivery_fee, new.delivery_fee);
  if new.refund_approval_above > old.refund_approval_above and auth.uid() is not null then
    insert into private.refund_limit_raises (raised_by, raised_by_email, raised_from, raised_to)
    values (auth.uid(), private.email_of(auth.uid()), old.refund_approval_above, new.refund_approval_above);
  end if;
  return null;
end
$$;

create or replace function private.after_order_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.count_change(private.figures_of(old), private.figures_of(new));
  if tg_op = 'INSERT' then
    perform private.record_order_events(null, new);
    return null;
  elsif tg_op = 'DELETE' then
    delete from public.order_events as e where e.order_id = old.id;
    delete from public.outbox_messages as m where m.order_id = old.id;
    return null;
  end if;
  if (old.status, old.payment_status, old.reserved_until is null)
    is distinct from (new.status, new.payment_status, new.reserved_until is null)
  then
    perform private.count_held_units(old, new);
  end if;
  if old.payment_status in ('paid', 'needs_review') and new.payment_status = 'refunded' then
    perform private.record_refund_of_order(new);
  end if;
  if (old.status, old.payment_status) is distinct from (new.status, new.payment_status) then
    perform private.queue_messages_of_order(old, new);
    perform private.notify_order_followers(new.id);
  end if;
  perform private.record_order_events(old, new);
  if (old.status <> new.status or private.is_called_off(old) <> private.is_called_off(new))
    and current_setting('private.is_undoing', true) is distinct from 'yes'
  then
    perform private.move_delivery_with_order(old, new);
  end if;
  return null;
end
$$;

-- Writes of staff whose answer was lost: whether they were saved can be asked, and one that was not saved never will be.

create table private.staff_writes (
  id uuid primary key,
  is_withdrawn boolean not null default false,
  answer jsonb,
  written_at timestamptz not null default now()
);

comment on table private.staff_writes is
  'Requests of staff that wrote something, by the header x-write-id, for an hour. is_withdrawn: settle_write came first, so that the request is refused. answer: what the procedure returned, where the screen needs it.';

alter table private.staff_writes enable row level security;

create index staff_writes_by_time on private.staff_writes (written_at);

create or replace function private.write_id() returns uuid
language plpgsql stable set search_path = '' as $$
declare
  sent text := nullif(current_setting('request.headers', true), '')::jsonb ->> 'x-write-id';
begin
  return case when sent ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then sent::uuid end;
end
$$;

comment on function private.write_id is 'The id that the panel gave to this request. Null: none.';

create or replace function private.record_staff_write() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  write_id uuid := private.write_id();
begin
  if write_id is null or not public.is_admin() then
    return null;
  end if;
  insert into private.staff_writes (id) values (write_id) on conflict do nothing;
  if found then
    delete from private.staff_writes as w where w.id in (
      select past.id from private.staff_writes as past
      where past.written_at < now() - interval '1 hour' order by past.written_at limit 20 for update skip locked
    );
  elsif (select w.is_withdrawn from private.staff_writes as w where w.id = write_id) then
    perform private.refuse(409, 'write_withdrawn', 'The connection broke before this was saved. Please try again');
  end if;
  return null;
end
$$;

comment on function private.record_staff_write is
  'Records the request of a staff member that writes to a table, once; refuses one that settle_write has withdrawn.';

create or replace function private.note_answer(answer jsonb) returns void
language sql volatile set search_path = '' as $$
  update private.staff_writes as w set answer = note_answer.answer where w.id = private.write_id();
$$;

comment on function private.note_answer is 'Keeps the answer of a procedure for settle_write.';

create or replace function public.settle_write(write_id uuid) returns table (is_saved boolean, answer jsonb)
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  -- Waits for the request if it is still running.
  insert into private.staff_writes (id, is_withdrawn) values (settle_write.write_id, true) on conflict do nothing;
  return query select not w.is_withdrawn, w.answer from private.staff_writes as w where w.id = settle_write.write_id;
end
$$;

comment on function public.settle_write is
  'For staff: whether a request whose answer was lost was saved, by its x-write-id. If not, it is withdrawn: it is refused should it still arrive, so that it can be repeated safely. answer: what it returned, where that was kept. One row.';

-- Before each statement on a table that staff write, themselves or by a procedure.
create trigger orders_by_staff before insert or update or delete on public.orders for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger deliveries_by_staff before insert or update or delete on public.deliveries for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger payments_by_staff before insert or update or delete on public.payments for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger refunds_by_staff before insert or update or delete on public.refunds for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger mpesa_transactions_by_staff before insert or update or delete on public.mpesa_transactions for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger reconciliation_events_by_staff before insert or update or delete on public.reconciliation_events for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger products_by_staff before insert or update or delete on public.products for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger categories_by_staff before insert or update or delete on public.categories for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger search_synonyms_by_staff before insert or update or delete on public.search_synonyms for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger store_settings_by_staff before insert or update or delete on public.store_settings for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger shop_texts_by_staff before insert or update or delete on public.shop_texts for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger message_templates_by_staff before insert or update or delete on public.message_templates for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger outbox_messages_by_staff before insert or update or delete on public.outbox_messages for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger inquiries_by_staff before insert or update or delete on public.inquiries for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

create trigger prompt_pause_by_staff before insert or update or delete on private.prompt_pause for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

-- Execution rights
grant execute on function public.settle_write to authenticated, service_role;

-- Rows: what existing deliveries become by the rules above.

-- Deliveries of orders that were cancelled or refunded before they arrived, and of orders that were shipped without a rider.
update public.deliveries as d
set delivery_status = private.delivery_status_for_order(o, d.delivery_status, d.delivery_person)
from public.orders as o
where o.id = d.order_id and private.is_called_off(o) and d.delivery_status not in ('failed', 'delivered');

update public.deliveries as d
set delivery_status = 'pending'
from public.orders as o
where o.id = d.order_id and d.delivery_person is null and d.delivery_status = 'in_transit' and d.pickup_time is null
  and o.status in ('shipped', 'out_for_delivery') and not private.is_called_off(o);
