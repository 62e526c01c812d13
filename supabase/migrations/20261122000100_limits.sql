-- Limits count networks: one client can use every address of its network, so a limit per address would be none.

-- Counters ----------------------------------------------------------------------------------------------------------

alter table private.rate_limits add column window_end timestamptz not null default now() + interval '2 hours';
create index rate_limits_by_window_end on private.rate_limits (window_end);

-- PL/pgSQL keeps its plans for the session; a function in SQL would be planned at each call.
create or replace function private.count_hit(bucket text, subject text, within interval) returns integer
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  started timestamptz := date_bin(count_hit.within, clock_timestamp(), timestamptz '2000-01-01');
  counted integer;
begin
  insert into private.rate_limits as known (bucket, subject, window_start, window_end, hits)
  values (count_hit.bucket, count_hit.subject, started, started + count_hit.within, 1)
  on conflict (bucket, subject, window_start) do update set hits = known.hits + 1
  returning hits into counted;
  return counted;
end
$$;

create or replace function private.hits_so_far(bucket text, subject text, within interval) returns integer
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
begin
  return coalesce((
    select known.hits
    from private.rate_limits as known
    where known.bucket = hits_so_far.bucket and known.subject = hits_so_far.subject
      and known.window_start = date_bin(hits_so_far.within, clock_timestamp(), timestamptz '2000-01-01')
  ), 0);
end
$$;

-- Networks of the caller --------------------------------------------------------------------------------------------

create function private.caller_networks() returns text[]
language plpgsql stable
set search_path = ''
as $$
declare
  header text;
  address inet;
begin
  header := nullif(current_setting('request.headers', true), '')::jsonb ->> 'x-forwarded-for';
  if header is null then
    return '{}';
  end if;
  -- No address with its zone is longer than 100 characters.
  address := split_part(trim(split_part(left(header, 100), ',', 1)), '%', 1)::inet;
  if address <<= inet '::ffff:0.0.0.0/96' then
    address := inet '0.0.0.0' + (address - inet '::ffff:0.0.0.0');
  end if;
  if family(address) = 4 then
    return array[host(address), network(set_masklen(address, 24))::text];
  end if;
  return array[
    network(set_masklen(address, 64))::text,
    network(set_masklen(address, 56))::text,
    network(set_masklen(address, 48))::text
  ];
exception when data_exception then
  return '{unknown}';
end
$$;
comment on function private.caller_networks() is
  'Networks of the request''s IP address, narrowest first: IPv4 the address and its /24, IPv6 its /64, /56 and /48. Unreadable addresses share the network "unknown". Empty for calls without an address, which are the shop''s own.';

create or replace function private.caller_address() returns text
language plpgsql stable
set search_path = ''
as $$
begin
  return (private.caller_networks())[1];
end
$$;
comment on function private.caller_address() is
  'The narrowest network of the request: the IPv4 address or the IPv6 /64. Null for calls of the shop itself.';

create function private.allowance_factor(network text) returns integer
language plpgsql immutable
set search_path = ''
as $$
begin
  -- Many customers of one provider share a wider network.
  return case split_part(network, '/', 2) when '56' then 2 when '48' then 8 when '24' then 8 else 1 end;
end
$$;
comment on function private.allowance_factor(text) is
  'How many times the allowance of one address or /64 a network has: /56 twice, /48 and IPv4 /24 eight times.';

-- Limits ------------------------------------------------------------------------------------------------------------

create table private.limits (
  name text primary key,
  allowed integer not null,
  within interval not null,
  constraint "a limit allows at least one call" check (allowed >= 1),
  constraint "a limit has a window" check (within > interval '0')
);
comment on table private.limits is
  'How many calls a network has within a window. allowed is for one address or /64; wider networks have allowance_factor times as many.';
alter table private.limits enable row level security;

create function private.is_within_limit(limit_name text, subject text default '') returns boolean
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
declare
  rule private.limits;
begin
  select * into strict rule from private.limits as l where l.name = is_within_limit.limit_name;
  return not exists (
    select from unnest(private.caller_networks()) as caller (network)
    join private.rate_limits as known
      on known.bucket = rule.name
      and known.subject = rtrim(caller.network || ' ' || is_within_limit.subject)
      and known.window_start = date_bin(rule.within, clock_timestamp(), timestamptz '2000-01-01')
    where known.hits >= rule.allowed * private.allowance_factor(caller.network)
  );
end
$$;
comment on function private.is_within_limit(text, text) is
  'Whether the caller has a call left in this limit, in each of its networks. Counts nothing. Always true without an address.';

create function private.count_call(limit_name text, subject text default '') returns boolean
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  rule private.limits;
  started timestamptz;
  is_within boolean;
begin
  -- A call over the limit writes nothing: it costs little, and one address cannot use up the allowance of its wider networks.
  if not private.is_within_limit(count_call.limit_name, count_call.subject) then
    return false;
  end if;
  select * into strict rule from private.limits as l where l.name = count_call.limit_name;
  started := date_bin(rule.within, clock_timestamp(), timestamptz '2000-01-01');
  with counted as (
    insert into private.rate_limits as known (bucket, subject, window_start, window_end, hits)
    select rule.name, rtrim(caller.network || ' ' || count_call.subject), started, started + rule.within, 1
    from unnest(private.caller_networks()) with ordinality as caller (network, level)
    -- Concurrent calls lock their common counters in the same order.
    order by caller.level
    on conflict (bucket, subject, window_start) do update set hits = known.hits + 1
    returning known.subject, hits
  )
  select coalesce(bool_and(c.hits <= rule.allowed * private.allowance_factor(split_part(c.subject, ' ', 1))), true) into is_within
  from counted as c;
  return is_within;
end
$$;
comment on function private.count_call(text, text) is
  'Counts one call in this limit for each network of the caller, together with the subject where one is given, and returns whether all are within their allowance. Bound the subject''s length first. Always true without an address.';

-- Refusals that keep their counters ---------------------------------------------------------------------------------

create function private.refusal_answer(code text, message text, details text, hint text) returns jsonb
language plpgsql volatile
set search_path = ''
as $$
begin
  perform set_config('response.status', substr(refusal_answer.code, 3), true);
  return jsonb_build_object(
    'code', refusal_answer.code,
    'message', refusal_answer.message,
    'details', refusal_answer.details,
    'hint', refusal_answer.hint
  );
end
$$;
comment on function private.refusal_answer(text, text, text, text) is
  'The answer of a procedure that refuses without raising, so that what it counted is committed: PostgREST''s body of the error, with its HTTP status. A public procedure counts first, works in an inner block, and returns this from "exception when sqlstate ''PT000''", which matches every PTxxx.';

-- Cleaning up -------------------------------------------------------------------------------------------------------

create function private.forget_old_limits() returns void
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
begin
  delete from private.rate_limits as known where known.window_end < now();
  -- Where an order came from matters while it has units without being paid, and for an hour after it was placed.
  delete from private.order_networks as n
  where n.placed_at < now() - interval '2 hours' and not exists (
    select from public.orders as o
    where o.id = n.order_id and o.payment_status = 'unpaid' and o.status = 'pending' and o.reserved_until is not null
  );
end
$$;
comment on function private.forget_old_limits() is 'Deletes what limits do not need any more: counters whose window ended, and networks of old orders.';

create or replace function public.forget_old_rows() returns integer
language plpgsql volatile security definer
set search_path = ''
as $$
declare
  forgotten integer;
begin
  perform private.forget_old_limits();
  update public.outbox_messages as m
  set recipient = '', customer_name = '', subject = null, body = null, problem = null, updated_at = now()
  where m.id in (
    select old.id from public.outbox_messages as old
    where old.recipient <> '' and old.created_at < now() - interval '90 days' and old.status not in ('waiting', 'sending')
    order by old.created_at limit 5000
    for update skip locked
  );
  get diagnostics forgotten = row_count;
  -- That M-PESA had not decided yet is no evidence of anything.
  delete from public.payment_messages as m
  where m.id in (
    select old.id from public.payment_messages as old
    where old.source = 'query' and old.outcome = 'pending' and old.received_at < now() - interval '90 days'
    order by old.received_at limit 5000
    for update skip locked
  );
  -- It stays known that it came, when, of what and what it did; what could not be settled yet is kept whole.
  update public.payment_messages as m
  set body = '{}', source_address = null
  where m.id in (
    select old.id from public.payment_messages as old
    where old.received_at < now() - make_interval(months => (select s.payment_messages_months from public.store_settings as s))
      and old.body <> '{}' and old.outcome is not null and old.outcome <> 'fault'
    order by old.received_at limit 5000
    for update skip locked
  );
  update public.mpesa_transactions as t
  set payer_name = null, payer_phone = null
  where t.receipt in (
    select old.receipt from public.mpesa_transactions as old
    where old.transacted_at < now() - make_interval(months => (select s.payment_messages_months from public.store_settings as s))
      and (old.payer_name is not null or old.payer_phone is not null)
    order by old.transacted_at limit 5000
    for update skip locked
  );
  return forgotten;
end
$$;
