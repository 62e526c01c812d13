-- Limits of calls per network of the caller and time window (docs/decisions/limits.md). Their values are rows of private.limits
-- (27_rows.sql).

create unlogged table private.rate_limits (
  bucket text not null,
  subject text not null,
  window_start timestamptz not null,
  hits integer not null,
  window_end timestamptz not null default now() + interval '2 hours',
  constraint "one counter per subject and window" primary key (bucket, subject, window_start)
);
comment on table private.rate_limits is 'Calls counted per subject and time window.';
alter table private.rate_limits enable row level security;
create index rate_limits_by_window_end on private.rate_limits using brin (window_end);

create table private.limits (
  name text primary key,
  allowed integer not null,
  within interval not null,
  per_paid_order numeric not null default 0,
  constraint "a limit allows at least one call" check (allowed >= 1),
  constraint "a limit has a window" check (within > interval '0'),
  constraint "a paid order takes no calls away" check (per_paid_order >= 0)
);
comment on table private.limits is
  'Allowed calls of a network per window. allowed applies to one IP address or /64; wider networks have private.allowance_factor times as many.';
comment on column private.limits.per_paid_order is
  'Further calls for each order of the network that was paid in the same window, so that a limit fits the thousands of customers behind one address of a mobile network.';
alter table private.limits enable row level security;

create unlogged table private.network_paid_orders (
  id bigint generated always as identity primary key,
  network text not null,
  within interval not null,
  window_start timestamptz not null,
  window_end timestamptz not null,
  orders integer not null
);
comment on table private.network_paid_orders is
  'Paid orders counted per network and window of a limit, in as many rows as transactions counted at once: each takes a row that no other has locked.';
alter table private.network_paid_orders enable row level security;
create index network_paid_orders_by_window on private.network_paid_orders (network, within, window_start);
create index network_paid_orders_by_window_end on private.network_paid_orders (window_end);

-- PL/pgSQL caches its plans for the session; an SQL function would be planned at each call.
create function private.count_hit(bucket text, subject text, within interval) returns integer
language plpgsql volatile set search_path = '' as $$
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
comment on function private.count_hit is
  'Counts one hit in the current window and returns the number of hits. Rolled back with its transaction.';

create function private.hits_so_far(bucket text, subject text, within interval) returns integer
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return coalesce((
    select known.hits
    from private.rate_limits as known
    where known.bucket = hits_so_far.bucket and known.subject = hits_so_far.subject
      and known.window_start = date_bin(hits_so_far.within, clock_timestamp(), timestamptz '2000-01-01')
  ), 0);
end
$$;
comment on function private.hits_so_far is 'Number of hits in the current window, without counting one.';

create table private.storefront_tokens (
  token_hash text primary key,
  registered_at timestamptz not null default now(),
  constraint "a token hash is SHA-256 in hexadecimal" check (token_hash ~ '^[0-9a-f]{64}$')
);
comment on table private.storefront_tokens is
  'SHA-256 hashes of the tokens with which the shop''s servers send their visitor''s IP address (x-visitor-token).';
alter table private.storefront_tokens enable row level security;

create function public.register_storefront(token_hash text) returns void
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
begin
  insert into private.storefront_tokens as known (token_hash)
  values (register_storefront.token_hash)
  on conflict (token_hash) do update set registered_at = now();
  -- Several hashes are valid, because keys are rotated.
  delete from private.storefront_tokens as known
  where known.token_hash not in (
    select latest.token_hash from private.storefront_tokens as latest order by latest.registered_at desc limit 5
  );
end
$$;
comment on function public.register_storefront is
  'Accepts visitor addresses from servers with the token of this hash. The five newest hashes are valid.';

create function private.request_address() returns text
language plpgsql stable security definer set search_path = '' as $$
declare
  headers jsonb := nullif(current_setting('request.headers', true), '')::jsonb;
  visitor text := left(headers ->> 'x-visitor-address', 100);
begin
  if coalesce(auth.role(), '') = 'service_role' then
    return visitor;
  elsif visitor is not null then
    if exists (
      select from private.storefront_tokens as known
      where known.token_hash = encode(sha256(convert_to(left(headers ->> 'x-visitor-token', 100), 'UTF8')), 'hex')
    ) then
      return visitor;
    end if;
  end if;
  -- An IP address with its zone has at most 100 characters.
  return coalesce(
    left(headers ->> 'cf-connecting-ip', 100),
    split_part(right(rtrim(headers ->> 'x-forwarded-for'), 100), ',', -1)
  );
end
$$;
comment on function private.request_address is
  'The caller''s IP address, from sources that a client cannot write: x-visitor-address, with a storefront token or the secret key; cf-connecting-ip, set by a hosted project''s network; the last address of x-forwarded-for, added by the nearest proxy. Null for calls of the shop itself.';

create function private.caller_networks() returns text[]
language plpgsql stable set search_path = '' as $$
declare
  request_address text;
  address inet;
begin
  request_address := private.request_address();
  if request_address is null then
    return '{}';
  end if;
  address := split_part(trim(request_address), '%', 1)::inet;
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
comment on function private.caller_networks is
  'Networks of the caller''s IP address, narrowest first: the IPv4 address and its /24, or the IPv6 /64, /56 and /48. Unreadable addresses share the network "unknown". Empty for calls of the shop itself.';

create function private.allowance_factor(network text) returns integer
language plpgsql immutable set search_path = '' as $$
begin
  -- Many customers of one provider share a wider network.
  return case split_part(network, '/', 2) when '56' then 2 when '48' then 8 when '24' then 8 else 1 end;
end
$$;
comment on function private.allowance_factor is
  'How many times the allowance of an IP address or /64 a network has: /56 twice, /48 and IPv4 /24 eight times.';

create function private.count_paid_order(networks text[]) returns void
language plpgsql set search_path = '' as $$
declare
  counted record;
begin
  for counted in
    select payer.network, span.within, date_bin(span.within, clock_timestamp(), timestamptz '2000-01-01') as window_start
    from unnest(networks) as payer (network)
    cross join (select distinct l.within from private.limits as l where l.per_paid_order > 0) as span
  loop
    -- Never waits for another transaction: a settlement may have locked products already.
    update private.network_paid_orders as known
    set orders = known.orders + 1
    where known.id = (
      select free.id from private.network_paid_orders as free
      where free.network = counted.network and free.within = counted.within and free.window_start = counted.window_start
      limit 1
      for update skip locked
    );
    if not found then
      insert into private.network_paid_orders (network, within, window_start, window_end, orders)
      values (counted.network, counted.within, counted.window_start, counted.window_start + counted.within, 1);
    end if;
  end loop;
end
$$;
comment on function private.count_paid_order is
  'Counts an order that was paid for the networks of its customer, in the current window of each limit that grows with paid orders.';

create function private.allowance(rule private.limits, network text) returns integer
language plpgsql stable set search_path = '' as $$
begin
  return rule.allowed * private.allowance_factor(allowance.network) + floor(rule.per_paid_order * coalesce((
    select sum(known.orders) from private.network_paid_orders as known
    where known.network = allowance.network and known.within = rule.within
      and known.window_start = date_bin(rule.within, clock_timestamp(), timestamptz '2000-01-01')
  ), 0));
end
$$;
comment on function private.allowance is
  'Calls that a limit allows a network in the current window: its share, and per_paid_order for each of its paid orders.';

create function private.is_within(rule private.limits, network text, hits bigint) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  -- Paid orders are counted only where the share is used up.
  return hits <= rule.allowed * private.allowance_factor(is_within.network)
    or (rule.per_paid_order > 0 and hits <= private.allowance(rule, is_within.network));
end
$$;
comment on function private.is_within is 'Whether a network may make this many calls in the current window of a limit.';

create function private.is_within_limit(rule private.limits, networks text[], subject text) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return not exists (
    select from unnest(networks) as caller (network)
    where not private.is_within(
      rule, caller.network, private.hits_so_far(rule.name, rtrim(caller.network || ' ' || is_within_limit.subject), rule.within) + 1
    )
  );
end
$$;

create function private.is_within_limit(limit_name text, subject text default '') returns boolean
language plpgsql stable set search_path = '' as $$
declare
  rule private.limits;
begin
  select * into strict rule from private.limits as l where l.name = is_within_limit.limit_name;
  return private.is_within_limit(rule, private.caller_networks(), is_within_limit.subject);
end
$$;
comment on function private.is_within_limit(text, text) is
  'Whether the caller has a call left in this limit, in each network. Counts nothing. True without an IP address.';

-- A statement with an array as parameter would be planned again at each call.
create function private.count_call_from(networks text[], limit_name text, subject text default '') returns boolean
language plpgsql volatile set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  rule private.limits;
  started timestamptz;
  is_within boolean;
begin
  select * into strict rule from private.limits as l where l.name = count_call_from.limit_name;
  started := date_bin(rule.within, clock_timestamp(), timestamptz '2000-01-01');
  with callers as materialized (
    select caller.network, caller.level, rtrim(caller.network || ' ' || count_call_from.subject) as subject
    from unnest(networks) with ordinality as caller (network, level)
  ), counted as (
    insert into private.rate_limits as known (bucket, subject, window_start, window_end, hits)
    select rule.name, c.subject, started, started + rule.within, 1
    from callers as c
    -- A call over the limit writes nothing, so that one address cannot use up the allowance of its wider networks.
    where not exists (
      select from callers as every
      where not private.is_within(rule, every.network, 1 + coalesce((
        select before.hits from private.rate_limits as before
        where before.bucket = rule.name and before.subject = every.subject and before.window_start = started
      ), 0))
    )
    -- Concurrent calls lock their common counters in the same order.
    order by c.level
    on conflict (bucket, subject, window_start) do update set hits = known.hits + 1
    returning known.subject, known.hits
  )
  select count(*) = cardinality(networks)
    and coalesce(bool_and(private.is_within(rule, split_part(c.subject, ' ', 1), c.hits)), true) into is_within
  from counted as c;
  return is_within;
end
$$;
comment on function private.count_call_from is
  'Counts one call in this limit, and subject if given, for each of the networks. Returns whether all are within their allowance. Bound the subject''s length first. True without networks.';

create function private.count_call(limit_name text, subject text default '') returns boolean
language plpgsql volatile set search_path = '' as $$
begin
  return private.count_call_from(private.caller_networks(), count_call.limit_name, count_call.subject);
end
$$;
comment on function private.count_call is 'private.count_call_from the caller''s networks. True without an IP address.';

create function private.readable_phone(phone text) returns text
language sql immutable
return regexp_replace(phone, '^\+254(\d{3})(\d{3})(\d{3})$', '0\1 \2 \3');
comment on function private.readable_phone is 'A Kenyan number in groups, as 0712 345 678; others unchanged, as formatPhone of domain/people/phone.ts.';

create function private.contact_numbers() returns text
language sql stable set search_path = '' as $$
  select private.readable_phone(s.support_phone) || case
    when s.chat_phone <> s.support_phone then ' (WhatsApp ' || private.readable_phone(s.chat_phone) || ')'
    else ''
  end
  from public.store_settings as s;
$$;
comment on function private.contact_numbers is
  'Where customers call the shop or write on WhatsApp: 0712 345 678, with a number for WhatsApp where it is another.';

create function private.time_left(limit_name text) returns text
language plpgsql stable set search_path = '' as $$
declare
  rule private.limits;
  minutes integer;
begin
  select * into strict rule from private.limits as l where l.name = time_left.limit_name;
  minutes := ceil(extract(epoch from
    date_bin(rule.within, clock_timestamp(), timestamptz '2000-01-01') + rule.within - clock_timestamp()
  ) / 60);
  return case
    when minutes <= 1 then 'a minute'
    when minutes < 120 then minutes || ' minutes'
    else ceil(minutes / 60.0) || ' hours'
  end;
end
$$;
comment on function private.time_left is 'The time until the current window of a limit ends, such as 7 minutes or 5 hours.';

-- Execution rights
grant execute on function public.register_storefront to service_role;
