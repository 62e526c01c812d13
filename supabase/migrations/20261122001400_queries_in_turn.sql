-- M-PESA answers few questions per minute. Prompts of one network, which anyone can cause, must not keep the payments of others waiting.

create or replace function public.lease_payment_queries(at_most integer default 1, per_minute integer default 5) returns setof jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
begin
  -- Whoever polls, in whichever process: one at a time, and each attempt at growing intervals.
  perform pg_advisory_xact_lock(hashtext('lease_payment_queries'));
  -- An attempt whose push was never answered has no id to ask with; after a quarter of an hour no notice will come. And
  -- what M-PESA does not know after a day it will never know.
  update public.payments as p
  set status = 'unresolved', next_query_at = null, updated_at = now()
  where p.status in ('initiating', 'processing')
    and p.created_at < now() - case when p.checkout_request_id is null then interval '15 minutes' else interval '1 day' end;
  -- Nor may all processes together ask more often than M-PESA lets one merchant ask: as many as are wanted at once, and
  -- then nobody until so many may be asked again.
  if not exists (
    select from public.payments as p
    where p.status = 'processing' and p.checkout_request_id is not null and p.next_query_at <= now()
  ) or private.count_hit(
    'payment_queries', 'all',
    interval '1 minute' * lease_payment_queries.at_most / greatest(lease_payment_queries.per_minute, 1)
  ) > 1 then
    return;
  end if;
  return query
  with waiting as materialized (
    select p.id, p.next_query_at, (
      select k.network from private.order_networks as k
      where k.order_id = p.order_id
      order by private.allowance_factor(k.network) desc
      limit 1
    ) as widest_network
    from public.payments as p
    where p.status = 'processing' and p.checkout_request_id is not null and p.next_query_at <= now()
  ), asked as materialized (
    select w.widest_network, (
      select sum(p.query_count)
      from private.order_networks as k
      join public.payments as p on p.order_id = k.order_id
      where k.network = w.widest_network and p.created_at > now() - interval '15 minutes'
    ) as queries
    from waiting as w
    where w.widest_network is not null
    group by w.widest_network
  ), due as (
    select p.id
    from waiting as w
    join public.payments as p on p.id = w.id
    left join asked as a on a.widest_network = w.widest_network
    where p.status = 'processing'
    -- The network that was asked about least comes first, then the attempt that has waited longest.
    order by coalesce(a.queries, 0), w.next_query_at
    limit lease_payment_queries.at_most
    -- What is being settled at this moment has its answer.
    for update of p skip locked
  )
  update public.payments as p
  set query_count = p.query_count + 1,
      -- The exponent is kept small: a long wait would be no interval any more.
      next_query_at = now() + least(interval '10 seconds' * power(1.5, least(p.query_count, 20)), interval '10 minutes'),
      updated_at = now()
  from due
  where p.id = due.id
  returning to_jsonb(p);
end
$$;
comment on function public.lease_payment_queries(integer, integer) is
  'Attempts to ask M-PESA about now, at most so many at once and so many a minute; of the networks it was asked about least in the last quarter of an hour first. Each is leased: it comes up again later, at growing intervals, if no answer settles it.';
