-- Reservations: the units that unpaid orders hold, and their expiry (docs/decisions/unpaid-orders.md).

create table private.held_units (
  product_id uuid primary key references public.products (id) on delete cascade,
  quantity integer not null
);
comment on table private.held_units is
  'Units of a product that unpaid orders hold, so that place_order does not sum all orders. Maintained by private.count_held_units.';
alter table private.held_units enable row level security;

create table private.order_networks (
  -- Without a foreign key, which would be checked for each network: rows end with their order in private.before_order_change.
  order_id uuid not null,
  network text not null,
  is_open boolean not null default true,
  ended_at timestamptz,
  phone text,
  primary key (order_id, network)
);
comment on table private.order_networks is
  'Networks of the visitor who placed an unpaid order. Deleted when it is paid, or an hour after it ended.';
comment on column private.order_networks.phone is 'The customer''s phone. Null for orders placed before it was stored.';
comment on column private.order_networks.ended_at is 'When its last hold, or the order itself, ended. Null while it holds units.';
alter table private.order_networks enable row level security;
create index order_networks_by_network on private.order_networks (network, is_open, phone);

create function private.reservation() returns interval
language sql stable set search_path = '' as $$
  select make_interval(mins => s.reservation_minutes) from public.store_settings as s;
$$;
comment on function private.reservation is 'How long the units of a new order wait for its payment.';

create function private.longest_reservation(reservation interval) returns interval
language sql immutable
return 2 * reservation;
comment on function private.longest_reservation is
  'The longest that prompts can extend a reservation of this length to, counted from its beginning (orders.expiry_limit).';

create function private.pay_link_time() returns interval
language sql immutable
return interval '24 hours';
comment on function private.pay_link_time is
  'How long an order waits for its payment once staff have given its customer the link: people answer a chat when they see it.';

create function private.agreement_time() returns interval
language sql immutable
return interval '3 days';
comment on function private.agreement_time is 'How long an order waits until staff and customer have agreed on its fee and day.';

create function private.refuse_before_agreement(ordered public.orders, for_staff boolean default false) returns void
language plpgsql stable set search_path = '' as $$
begin
  if not ordered.awaits_agreement then
    return;
  elsif for_staff then
    perform private.refuse(409, 'delivery_not_agreed', 'Agree with the customer on the delivery fee and the day first');
  end if;
  perform private.refuse(409, 'delivery_not_agreed', format(
    'We first agree with you on the delivery fee and the day. Please wait for our call, or call or WhatsApp us on %s',
    private.contact_numbers()
  ));
end
$$;
comment on function private.refuse_before_agreement is 'Refuses to take money for an order whose fee and day are not agreed on yet.';

create function private.limit_of_pay_link(expires_at timestamptz) returns timestamptz
language sql immutable
return expires_at + interval '10 minutes';
comment on function private.limit_of_pay_link is 'orders.expiry_limit of an order with a pay link: an open prompt at its end is waited for.';

create function private.units_held(product_id uuid) returns bigint
language plpgsql stable set search_path = '' as $$
begin
  return coalesce((select h.quantity from private.held_units as h where h.product_id = units_held.product_id), 0);
end
$$;
comment on function private.units_held is 'Units of a product that unpaid orders hold.';

create function private.units_in_order(order_id uuid, product_id uuid) returns integer
language plpgsql stable set search_path = '' as $$
begin
  return (
    select sum(own.quantity)::integer
    -- One step in the index of orders: that of products would read every order of a popular one.
    from (select i.product_id, i.quantity from public.order_items as i where i.order_id = units_in_order.order_id offset 0) as own
    where own.product_id = units_in_order.product_id
  );
end
$$;
comment on function private.units_in_order is 'Units of a product in an order. Null if it has none.';

create function private.return_units(order_id uuid, cause text) returns void
language plpgsql set search_path = '' as $$
declare
  product_ids uuid[] := array(select i.product_id from public.order_items as i where i.order_id = return_units.order_id);
begin
  -- Lock products by id, so that two orders of the same products cannot deadlock.
  perform from public.products as p where p.id = any (product_ids) order by p.id for update;
  perform private.state_cause_of_units(return_units.cause, return_units.order_id);
  update public.products as p
  set stock_quantity = p.stock_quantity
    + private.units_in_order(return_units.order_id, p.id)
  where p.id = any (product_ids);
  perform private.state_cause_of_units();
end
$$;
comment on function private.return_units is
  'Returns an order''s units to stock, for one of the causes of stock_changes. The caller has locked the order.';

create function private.due_end(ended public.orders) returns text
language plpgsql stable set search_path = '' as $$
declare
  is_prompted boolean;
begin
  -- Cash is paid at the door, whatever status staff set until then.
  if ended.payment_status <> 'unpaid' or not private.is_before_work(ended.status)
    or (ended.payment_method = 'cash' and ended.status <> 'cancelled')
  then
    return null;
  end if;
  if exists (select from public.payments as p where p.order_id = ended.id and p.status = 'review') then
    return null;
  end if;
  is_prompted := coalesce(ended.expiry_limit > now(), true) and exists (
    select from public.payments as p where p.order_id = ended.id and private.is_open_attempt(p.status)
  );
  return case
    when not is_prompted and (ended.expires_at <= now() or (ended.status = 'cancelled' and ended.reserved_until is not null)) then 'order'
    when ended.reserved_until <= now() then 'units'
  end;
end
$$;
comment on function private.due_end is
  'What ends now. order: the unpaid order, at expires_at; an open prompt delays that until expiry_limit. units: its hold, at reserved_until, also while a prompt is open. Null: nothing. A payment under review delays both.';

create function private.due_orders(at_most integer) returns uuid[]
language plpgsql stable
set search_path = ''
-- The partial indexes return due orders in order.
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

create function public.expire_reservations(at_most integer default 200) returns integer
language plpgsql security definer set search_path = '' as $$
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
      perform private.return_units(ended.id, case when ended.status = 'cancelled' then 'cancelled' else 'reservation_ended' end);
    end if;
    update public.orders as o
    set reserved_until = null, status = case when is_over then 'cancelled' else o.status end,
        expires_at = case when not is_over then o.expires_at end,
        cancel_reason = case when ended.status = 'cancelled' then o.cancel_reason when is_over then 'not_paid_in_time' end,
        updated_at = now()
    where o.id = ended.id;
    if is_over and ended.status <> 'cancelled' and private.had_pay_link(ended) then
      insert into private.ended_pay_links (order_id) values (ended.id) on conflict do nothing;
    end if;
  end loop;
  return cardinality(due);
end
$$;
comment on function public.expire_reservations is
  'Ends what private.due_end names: cancels unpaid orders, and returns the units that they hold, of at_most orders. Returns the number of orders.';

create function private.subtract_units(order_id uuid) returns void
language plpgsql set search_path = '' as $$
begin
  perform private.state_cause_of_units('ordered', subtract_units.order_id);
  update public.products as p set stock_quantity = p.stock_quantity - i.quantity
  from public.order_items as i
  where i.order_id = subtract_units.order_id and p.id = i.product_id;
  perform private.state_cause_of_units();
end
$$;
comment on function private.subtract_units is 'Takes an order''s units out of stock. The caller has locked the products and knows that there are enough.';

create function private.take_units(order_id uuid) returns boolean
language plpgsql set search_path = '' as $$
declare
  product_ids uuid[] := array(select i.product_id from public.order_items as i where i.order_id = take_units.order_id);
begin
  -- Lock products by id, so that two orders of the same products cannot deadlock.
  perform from public.products as p where p.id = any (product_ids) order by p.id for update;
  if exists (
    select from public.products as p
    where p.id = any (product_ids) and p.stock_quantity < private.units_in_order(take_units.order_id, p.id)
  ) then
    return false;
  end if;
  perform private.subtract_units(take_units.order_id);
  return true;
end
$$;
comment on function private.take_units is
  'Takes an order''s units out of stock again. False: there are not enough, and none was taken. The caller has locked the order.';

create function private.move_units_with_status(old public.orders, new public.orders) returns public.orders
language plpgsql set search_path = '' as $$
begin
  if new.status = 'cancelled' then
    -- Units that have left the shop are not returned automatically.
    if private.was_paid(new.payment_status) and new.units_returned_at is null and private.is_in_shop(old.status) then
      perform private.return_units(new.id, 'cancelled');
      new.units_returned_at := now();
    end if;
    return new;
  end if;
  if (private.was_paid(new.payment_status) and new.units_returned_at is not null)
    or (new.payment_status = 'unpaid' and new.reserved_until is null)
  then
    if not private.take_units(new.id) then
      perform private.refuse(409, 'units_sold',
        'The units of this order were sold in the meantime. There is not enough in stock to reopen it');
    end if;
    new.units_returned_at := null;
  end if;
  if new.payment_status = 'unpaid' and new.reserved_until is null then
    new.expires_at := now() + private.reservation();
    new.reserved_until := new.expires_at;
    new.expiry_limit := now() + private.longest_reservation(private.reservation());
    new.extended_at := null;
  end if;
  return new;
end
$$;

create function private.end_reviews() returns void
language plpgsql set search_path = '' as $$
declare
  reviewed record;
  minutes interval := private.reservation();
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
        expiry_limit = greatest(o.expiry_limit, now() + private.longest_reservation(minutes)), extended_at = null
    where o.id = reviewed.order_id and o.payment_status = 'unpaid' and o.status <> 'cancelled';
  end loop;
end
$$;
comment on function private.end_reviews is
  'Ends attempts under review whose money staff have resolved. A later success still supersedes this.';

create function private.count_held_units(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  paid_networks text[];
  was_held boolean := old.payment_status = 'unpaid' and old.reserved_until is not null and private.is_before_work(old.status);
  is_held boolean := new.id is not null
    and new.payment_status = 'unpaid' and new.reserved_until is not null and private.is_before_work(new.status);
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
    set quantity = known.quantity - private.units_in_order(old.id, known.product_id)
    where known.product_id = any (array(select i.product_id from public.order_items as i where i.order_id = old.id));
    -- Before the networks are deleted.
    perform private.end_counted_hold(old.id, is_sold => new.payment_status <> 'unpaid' or not private.is_before_work(new.status));
  end if;
  if new.id is null then
    return;
  end if;

  -- Paid orders, and unpaid ones that were handed over, are not limited.
  if new.payment_status <> 'unpaid' or not private.is_before_work(new.status) then
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

create function private.after_order_item_insert() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  insert into private.held_units as known (product_id, quantity)
  select new.product_id, new.quantity
  from public.orders as o
  where o.id = new.order_id and o.payment_status = 'unpaid' and o.reserved_until is not null and private.is_before_work(o.status)
  on conflict (product_id) do update set quantity = known.quantity + excluded.quantity;
  return null;
end
$$;

create function private.refuse_too_many_unpaid_orders(networks text[], phone text, settings public.store_settings) returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  crowded record;
  most integer;
begin
  for crowded in
    select caller.network, rule, known.of_phone, most.of_phone as most_of_phone
    from unnest(networks) with ordinality as caller (network, level)
    join private.limits as rule on rule.name = 'waiting_orders'
    cross join lateral (
      select settings.unpaid_orders_per_phone * private.allowance_factor(caller.network) as of_phone,
        rule.allowed * private.allowance_factor(caller.network) as of_network
    ) as most
    cross join lateral (
      select
        -- Only orders of the same network count, so that a stranger's orders with this phone do not block the customer.
        (select count(*) from (
          select from private.order_networks as k
          where k.network = caller.network and k.is_open and k.phone = refuse_too_many_unpaid_orders.phone
          limit most.of_phone
        ) as of_phone) as of_phone,
        (select count(*) from (
          select from private.order_networks as k where k.network = caller.network and k.is_open limit most.of_network
        ) as of_network) as of_network
    ) as known
    where known.of_phone >= most.of_phone or known.of_network >= most.of_network
    order by caller.level
  loop
    if crowded.of_phone >= crowded.most_of_phone then
      perform private.refuse(429, 'too_many_unpaid_orders', format(
        '%s orders of this phone wait to be paid already. Please pay one of them first, or try again in %s minutes',
        crowded.most_of_phone, settings.reservation_minutes
      ));
    end if;
    most := private.allowance(crowded.rule, crowded.network);
    if (
      select count(*) from (
        select from private.order_networks as k where k.network = crowded.network and k.is_open limit most
      ) as of_network
    ) >= most and not private.has_paid(refuse_too_many_unpaid_orders.phone) then
      perform private.refuse(429, 'too_many_unpaid_orders', format(
        'Too many orders from your network wait to be paid already. Please try again in %s minutes, or call or WhatsApp us on %s',
        settings.reservation_minutes, private.contact_numbers()
      ));
    end if;
  end loop;
end
$$;
comment on function private.refuse_too_many_unpaid_orders is
  'Refuses an order when a network of its customer has as many unpaid orders as allowed: of its phone unpaid_orders_per_phone times private.allowance_factor, of all phones the allowance of the limit waiting_orders, unless its phone has paid before.';

create function private.refuse_missing_units(product_name text, units integer, quantity integer) returns void
language plpgsql set search_path = '' as $$
begin
  if units is null then
    perform private.refuse(404, 'product_unavailable', format('%s is not available', coalesce(product_name, 'This product')));
  elsif units = 0 then
    perform private.refuse(409, 'out_of_stock', format('%s is out of stock', coalesce(product_name, 'This product')));
  elsif units < quantity then
    perform private.refuse(
      409, 'not_enough_stock', format('Only %s left in stock%s', units, coalesce(' of ' || product_name, '')), units::text
    );
  end if;
end
$$;
comment on function private.refuse_missing_units is
  'Refuses a line of an order of which there are too few units. units: null if the product is not for sale. product_name: null for an order of one drink.';

create function private.hold_units(order_id uuid, networks text[], held_until timestamptz, is_prompted boolean) returns void
language plpgsql set search_path = '' as $$
begin
  perform private.subtract_units(hold_units.order_id);
  perform private.begin_counted_hold(networks, hold_units.order_id, held_until, is_prompted);
end
$$;
comment on function private.hold_units is
  'Takes an order''s units out of stock until its payment, and counts the hold. The caller has locked the products and set reserved_until.';

create function private.reserve_for_prompt(order_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  product_ids uuid[];
  waiting public.orders;
  extended_until timestamptz;
  item record;
  networks text[];
  settings public.store_settings;
  held_until timestamptz;
  may_hold boolean := true;
begin
  select * into waiting from public.orders as o where o.id = reserve_for_prompt.order_id for no key update;
  -- An unpaid order that was handed over, or is paid at the door, has already taken its units.
  if not found or waiting.payment_status <> 'unpaid' or waiting.status <> 'pending' or waiting.payment_method = 'cash' then
    return;
  end if;
  extended_until := least(now() + private.prompt_hold(), waiting.expiry_limit);
  if waiting.extended_at is null and waiting.expires_at < extended_until then
    if waiting.reserved_until is not null and private.extend_counted_hold(waiting.id, extended_until) then
      waiting.reserved_until := extended_until;
    end if;
    update public.orders as o
    set expires_at = extended_until, reserved_until = waiting.reserved_until, extended_at = now()
    where o.id = waiting.id
    returning * into waiting;
  end if;
  if waiting.expires_at <= now() then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  elsif waiting.reserved_until is not null then
    return;
  end if;

  held_until := least(now() + private.prompt_hold(), waiting.expires_at);
  select coalesce(array_agg(k.network), '{}') into networks from private.order_networks as k where k.order_id = waiting.id;
  product_ids := array(select i.product_id from public.order_items as i where i.order_id = waiting.id);
  select * into strict settings from public.store_settings;
  perform from public.products as p where p.id = any (product_ids) order by p.id for no key update;
  for item in
    select p.id as product_id, i.product_name, p.stock_quantity as units_left, i.quantity,
      p.stock_quantity + private.units_held(p.id) as units
    from public.order_items as i
    left join lateral (select * from public.products as p where p.id = i.product_id and p.is_active offset 0) as p on true
    where i.order_id = waiting.id
  loop
    perform private.refuse_missing_units(case when cardinality(product_ids) > 1 then item.product_name end, item.units_left, item.quantity);
    may_hold := may_hold and (
      cardinality(networks) = 0
      or private.is_within_hold_time(networks, item.product_id, item.quantity, item.units, held_until - now(), true, settings)
    );
  end loop;
  -- Beyond that the prompt is sent without a hold, so that others in the same network cannot block a payment. If the units are sold
  -- before the money arrives, the order needs review as with late money.
  if may_hold then
    update public.orders as o set reserved_until = held_until where o.id = waiting.id;
    perform private.hold_units(waiting.id, networks, held_until, true);
  end if;
end
$$;
comment on function private.reserve_for_prompt is
  'Before a prompt for an unpaid order: holds its units for five minutes if it holds none, and moves its expiry once to five minutes from now. Refuses (product_unavailable, out_of_stock, not_enough_stock, order_cancelled) if it cannot be paid any more.';

create trigger order_items_after_insert after insert on public.order_items
  for each row when (new.product_id is not null)
  execute function private.after_order_item_insert();

create function private.reduce_abandoned_orders() returns void
language plpgsql set search_path = '' as $$
declare
  -- Bounds the disk that a flood of orders uses: beyond the newest 5,000, details are stored for a day only.
  stored_since timestamptz := greatest(now() - interval '30 days', (
    select least(o.created_at, now() - interval '1 day') from public.orders as o
    where o.status = 'cancelled' and o.payment_status = 'unpaid' and o.anonymised_at is null
    order by o.created_at desc offset 5000 limit 1
  ));
  due uuid[] := array(
    select o.id from public.orders as o
    where o.status = 'cancelled' and o.payment_status = 'unpaid' and o.anonymised_at is null
      and o.created_at <= stored_since
      and o.reserved_until is null
      and not exists (select from public.payments as p where p.order_id = o.id and p.status <> 'failed')
      and not exists (select from public.mpesa_transactions as t where t.order_id = o.id)
      and not exists (select from public.deliveries as d where d.order_id = o.id)
      and private.retention_reason(o.id) is null
    order by o.created_at limit 2000
    for no key update skip locked
  );
begin
  delete from private.order_keys as k where k.order_id = any (due);
  delete from public.order_items as i where i.order_id = any (due);
  perform private.anonymise_orders(due);
  delete from public.order_events as e where e.order_id = any (due);
end
$$;
comment on function private.reduce_abandoned_orders is
  'Reduces cancelled orders whose payments all failed, or that had none, to their row, which reports count: after 30 days, or after a day beyond the newest 5,000.';

-- Execution rights
grant execute on function public.expire_reservations to service_role;
