-- Lets the caller bound how many orders one call of expire_reservations ends.

drop function public.expire_reservations();

create function public.expire_reservations(at_most integer default 200) returns integer
language plpgsql security definer
set search_path = ''
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
-- Due orders come in the order of an index that has no others.
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
  due uuid[];
  ended public.orders;
begin
  perform pg_advisory_xact_lock(hashtext('expire_reservations'));
  perform private.end_reviews();
  -- Each kind has an index of its own, so that a run without due orders reads nothing.
  select array_agg(found.id) into due from (
    (
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'pending' and o.expires_at <= now()
        and not private.is_paying(o.id, o.expiry_limit)
      order by o.expires_at limit expire_reservations.at_most
    )
    union
    (
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'pending' and o.reserved_until <= now()
        and not private.is_paying(o.id, o.expiry_limit)
      order by o.reserved_until limit expire_reservations.at_most
    )
    union
    (
      -- Orders that staff cancelled return their units, too.
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'cancelled' and o.reserved_until is not null
        and not private.is_paying(o.id, o.expiry_limit)
      order by o.id limit expire_reservations.at_most
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
  -- Lock all products before the first changes, as renaming a category does.
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
comment on function public.expire_reservations(integer) is
  'Ends what has run out: cancels unpaid orders at expires_at, and gives units back at reserved_until and after a cancellation. Not while staff look at a payment, nor during an open prompt until expiry_limit. At most at_most orders of each of these three kinds. Returns how many orders.';
grant execute on function public.expire_reservations(integer) to service_role;
