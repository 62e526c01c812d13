-- For how long unpaid orders hold units, per network and in all (docs/decisions/unpaid-orders.md).

create unlogged table private.unpaid_holds (
  order_id uuid not null,
  product_id uuid not null,
  share_of_units double precision not null,
  is_prompted boolean not null,
  held_since timestamptz not null default now(),
  held_until timestamptz not null,
  primary key (order_id, product_id)
);
comment on table private.unpaid_holds is
  'Holds of visitors'' unpaid orders that count in private.hold_time. Deleted with the end of the hold.';
comment on column private.unpaid_holds.share_of_units is 'Units held, divided by the unsold units of the product at the beginning.';
comment on column private.unpaid_holds.is_prompted is 'Whether the hold began with a prompt. False: with the order.';
alter table private.unpaid_holds enable row level security;

create unlogged table private.hold_time (
  subject text not null,
  product_id uuid not null,
  counts_until timestamptz not null,
  held interval not null,
  primary key (subject, product_id, counts_until)
);
comment on table private.hold_time is
  'For how long unpaid orders held a product, as if they had held all of its units: half of the units for ten minutes are five. Holds that ended in a payment are taken out again.';
comment on column private.hold_time.subject is 'A network, or all networks together: placed (holds that began with the order) or prompts.';
comment on column private.hold_time.counts_until is 'An hour after the end of the holds, in steps of five minutes.';
alter table private.hold_time enable row level security;
create index hold_time_by_end on private.hold_time using brin (counts_until);

create function private.prompt_hold() returns interval
language sql immutable
return interval '5 minutes';
comment on function private.prompt_hold is
  'For how long a prompt holds units: those it takes, and those of an order that would end sooner. A customer enters the PIN within a minute or two.';

create function private.is_within_hold_time(
  networks text[], product_id uuid, quantity integer, units bigint, span interval, is_prompted boolean, settings public.store_settings
) returns boolean
language plpgsql stable set search_path = '' set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  -- Rounded down, so that parts never add up to more than the whole.
  added interval := date_trunc('milliseconds', span * (is_within_hold_time.quantity / units::double precision));
  share double precision := ceil(units * settings.reserved_share_percent / 100.0) / units;
  whole interval := make_interval(mins => settings.reservation_minutes);
begin
  return not exists (
    select from (
      -- Wider networks have only twice as much, because units are few; an order without a hold can still be paid.
      select caller.network, whole * share * least(private.allowance_factor(caller.network), 2)
      from unnest(is_within_hold_time.networks) as caller (network)
      union all
      select case when is_prompted then 'prompts' else 'placed' end, case when is_prompted then private.prompt_hold() else whole end * share
    ) as bound (subject, allowed)
    -- One hold is always allowed, such as that of the last unit.
    where added + coalesce((
      select sum(t.held) from private.hold_time as t
      where t.subject = bound.subject and t.product_id = is_within_hold_time.product_id and t.counts_until > now()
    ), interval '0') > greatest(bound.allowed, added)
  );
end
$$;
comment on function private.is_within_hold_time is
  'Whether units may be held for a time. In any hour each network may hold the share of the units (reserved_share_percent) for reservation_minutes, or fewer units for longer; a /56 and wider twice that. The same holds for all networks together at placing, and with private.prompt_hold at prompts. One hold is always allowed.';

create function private.hold_counts_until(held_until timestamptz) returns timestamptz
language sql immutable
return date_bin('5 minutes', held_until, timestamptz '2000-01-01') + interval '1 hour 5 minutes';

create function private.add_hold_time(counted private.unpaid_holds, span interval) returns void
language plpgsql set search_path = '' as $$
begin
  insert into private.hold_time as known (subject, product_id, counts_until, held)
  select
    counting.subject, counted.product_id, private.hold_counts_until(counted.held_until),
    date_trunc('milliseconds', span * counted.share_of_units)
  from (
    select k.network as subject from private.order_networks as k where k.order_id = counted.order_id
    union all
    select case when counted.is_prompted then 'prompts' else 'placed' end
  ) as counting
  -- What counts no longer may be deleted at this moment.
  where private.hold_counts_until(counted.held_until) > now()
  on conflict (subject, product_id, counts_until) do update set held = known.held + excluded.held;
end
$$;
comment on function private.add_hold_time is
  'Adds a time, or takes away a negative one, for the networks of a hold and all networks together. The caller has locked the product''s row of private.held_units.';

create function private.begin_counted_hold(networks text[], order_id uuid, held_until timestamptz, is_prompted boolean) returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_column
begin
  -- Orders of staff and of the shop itself are not limited.
  if cardinality(networks) = 0 then
    return;
  end if;
  with begun as (
    insert into private.unpaid_holds (order_id, product_id, share_of_units, is_prompted, held_until)
    select i.order_id, i.product_id, i.quantity / (p.stock_quantity + private.units_held(p.id))::double precision,
      begin_counted_hold.is_prompted, begin_counted_hold.held_until
    from public.order_items as i
    -- One step in the primary key for each item: the planner would rather read all products.
    cross join lateral (select * from public.products as p where p.id = i.product_id offset 0) as p
    where i.order_id = begin_counted_hold.order_id
    returning *
  )
  insert into private.hold_time as known (subject, product_id, counts_until, held)
  select
    counting.subject, begun.product_id, private.hold_counts_until(begun.held_until),
    date_trunc('milliseconds', (begun.held_until - now()) * begun.share_of_units)
  from begun
  cross join unnest(networks || case when begin_counted_hold.is_prompted then 'prompts' else 'placed' end) as counting (subject)
  on conflict (subject, product_id, counts_until) do update set held = known.held + excluded.held;
end
$$;
comment on function private.begin_counted_hold is
  'Counts the hold of an order on its units until its planned end, for its networks and all networks together. The order has taken the units.';

create function private.extend_counted_hold(order_id uuid, held_until timestamptz) returns boolean
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  held private.unpaid_holds[];
  extended private.unpaid_holds;
  networks text[];
  settings public.store_settings;
begin
  perform from private.held_units as h
  where h.product_id = any (array(select u.product_id from private.unpaid_holds as u where u.order_id = extend_counted_hold.order_id))
  order by h.product_id
  for no key update;
  held := array(select h from private.unpaid_holds as h where h.order_id = extend_counted_hold.order_id order by h.product_id);
  select array_agg(k.network) into networks from private.order_networks as k where k.order_id = extend_counted_hold.order_id;
  select * into strict settings from public.store_settings;
  foreach extended in array held loop
    if not private.is_within_hold_time(
      networks, extended.product_id,
      private.units_in_order(extended.order_id, extended.product_id),
      (select p.stock_quantity + private.units_held(p.id) from public.products as p where p.id = extended.product_id),
      extend_counted_hold.held_until - extended.held_until, extended.is_prompted, settings
    ) then
      return false;
    end if;
  end loop;
  foreach extended in array held loop
    perform private.add_hold_time(extended, extended.held_since - extended.held_until);
    extended.held_until := extend_counted_hold.held_until;
    update private.unpaid_holds as h set held_until = extended.held_until
    where h.order_id = extended.order_id and h.product_id = extended.product_id;
    perform private.add_hold_time(extended, extended.held_until - extended.held_since);
  end loop;
  return true;
end
$$;
comment on function private.extend_counted_hold is
  'Moves the planned end of an order''s hold, if its networks may hold all of its units for longer. Returns whether they may; true for holds that are not counted.';

create function private.end_counted_hold(order_id uuid, is_sold boolean) returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  ended private.unpaid_holds;
begin
  for ended in delete from private.unpaid_holds as h where h.order_id = end_counted_hold.order_id returning * loop
    perform private.add_hold_time(
      ended, case when end_counted_hold.is_sold then ended.held_since - ended.held_until else now() - ended.held_until end
    );
  end loop;
end
$$;
comment on function private.end_counted_hold is
  'Ends the hold of an order: counts the time that it took. A hold that ended in a sale does not count. The caller has locked the rows of private.held_units.';
