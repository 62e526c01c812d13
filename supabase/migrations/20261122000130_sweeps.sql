-- A sweep of unpaid orders reads what is due, not every order that waits.

create or replace function public.expire_reservations() returns integer
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  due uuid[];
  ended public.orders;
begin
  perform pg_advisory_xact_lock(hashtext('expire_reservations'));
  perform private.end_reviews();
  -- Each kind by its own index: a sweep that finds nothing due reads nothing.
  select array_agg(found.id) into due from (
    (
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'pending' and o.expires_at <= now()
        and not private.is_paying(o.id, o.expiry_limit)
      order by o.expires_at limit 200
    )
    union
    (
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'pending' and o.reserved_until <= now()
        and not private.is_paying(o.id, o.expiry_limit)
      order by o.reserved_until limit 200
    )
    union
    (
      -- Orders that staff cancelled give their units back, too.
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'cancelled' and o.reserved_until is not null
        and not private.is_paying(o.id, o.expiry_limit)
      order by o.id limit 200
    )
  ) as found;
  if due is null then
    return 0;
  end if;
  select array_agg(o.id) into due from (
    select o.id from public.orders as o
    where o.id = any (due) and o.payment_status = 'unpaid'
      and (
        (o.status = 'pending' and (o.expires_at <= now() or o.reserved_until <= now()))
        or (o.status = 'cancelled' and o.reserved_until is not null)
      )
    for update skip locked
  ) as o;
  -- Checked again under the lock: a payment may have begun in the meantime.
  select coalesce(array_agg(o.id order by o.id), '{}') into due
  from public.orders as o
  where o.id = any (due) and not private.is_paying(o.id, o.expiry_limit);
  -- All of them before the first is changed, as a renamed category does.
  perform from public.products as p
  where p.id in (select i.product_id from public.order_items as i where i.order_id = any (due))
  order by p.id
  for update;
  for ended in select * from public.orders as o where o.id = any (due) order by o.id loop
    if ended.reserved_until is not null then
      perform private.return_units(ended.id);
    end if;
    -- A hold for a prompt ends before its order does.
    update public.orders as o
    set reserved_until = null,
        status = case when o.status = 'cancelled' or o.expires_at <= now() then 'cancelled' else o.status end,
        expires_at = case when o.status = 'cancelled' or o.expires_at <= now() then null else o.expires_at end,
        updated_at = now()
    where o.id = ended.id;
  end loop;
  return cardinality(due);
end
$$;

-- A plan that was stored while a table was small reads all of it when it has grown: the embedded database never analyzes, and a
-- server does so a minute later. These functions look up a few rows of tables that strangers can fill.
alter function private.is_within_limit(text, text) set enable_seqscan = off;
alter function private.hits_so_far(text, text, interval) set enable_seqscan = off;
alter function private.expect_few_unpaid_orders(text[], text, integer) set enable_seqscan = off;
alter function private.is_within_units(text[], uuid, integer, bigint) set enable_seqscan = off;
alter function private.may_hold_units(text[], uuid, integer, integer, integer) set enable_seqscan = off;
alter function private.count_held_units() set enable_seqscan = off;
alter function private.reserve_for_prompt(uuid) set enable_seqscan = off;
alter function public.expire_reservations() set enable_seqscan = off;
