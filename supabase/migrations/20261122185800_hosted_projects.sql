-- The caller's address from sources that the client cannot write, one process that asks M-PESA, and pages that follow synonyms.

-- Servers of the shop that name their visitors' addresses
create table private.storefront_tokens (
  token_hash text primary key,
  registered_at timestamptz not null default now(),
  constraint "a token hash is SHA-256 in hexadecimal" check (token_hash ~ '^[0-9a-f]{64}$')
);

comment on table private.storefront_tokens is
  'SHA-256 hashes of the tokens with which the shop''s own servers name the address of their visitor (x-visitor-token).';

alter table private.storefront_tokens enable row level security;

create function public.register_storefront(token_hash text) returns void
language plpgsql volatile security definer
set search_path = ''
as $$
#variable_conflict use_column
begin
  insert into private.storefront_tokens as known (token_hash)
  values (register_storefront.token_hash)
  on conflict (token_hash) do update set registered_at = now();
  -- Keys are replaced now and then: the servers of the last few go on.
  delete from private.storefront_tokens as known
  where known.token_hash not in (
    select latest.token_hash from private.storefront_tokens as latest order by latest.registered_at desc limit 5
  );
end
$$;
comment on function public.register_storefront(text) is
  'Accepts the visitor addresses that a server names with the token of this hash. The five hashes used last count.';
grant execute on function public.register_storefront(text) to service_role;

create function private.request_address() returns text
language plpgsql stable security definer
set search_path = ''
as $$
declare
  headers jsonb := nullif(current_setting('request.headers', true), '')::jsonb;
  visitor text := left(headers ->> 'x-visitor-address', 100);
begin
  if coalesce((select auth.role()), '') = 'service_role' then
    return visitor;
  end if;
  if visitor is not null and exists (
    select from private.storefront_tokens as known
    where known.token_hash = encode(sha256(convert_to(left(headers ->> 'x-visitor-token', 100), 'UTF8')), 'hex')
  ) then
    return visitor;
  end if;
  -- No address with its zone is longer than 100 characters.
  return coalesce(
    left(headers ->> 'cf-connecting-ip', 100),
    split_part(right(rtrim(headers ->> 'x-forwarded-for'), 100), ',', -1)
  );
end
$$;
comment on function private.request_address() is
  'The IP address of the request, from sources that its client cannot write: the visitor whom a server of the shop names with its token or with the secret key; cf-connecting-ip, which a hosted project''s network sets and our own server removes; the last address of x-forwarded-for, which the nearest proxy added. Null for calls of the shop itself.';

-- Networks of the caller
create or replace function private.caller_networks() returns text[]
language plpgsql stable
set search_path = ''
as $$
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
comment on function private.caller_networks() is
  'Networks of the request''s IP address, narrowest first: IPv4 the address and its /24, IPv6 its /64, /56 and /48. Unreadable addresses share the network "unknown". Empty for calls without an address, which are the shop''s own.';

-- Background jobs of the payment function: which process calls it, and when.

create function private.is_payment_job_due(action text) returns boolean
language plpgsql stable
set search_path = ''
as $$
begin
  -- The same conditions as in the functions that hand the work out (lease_payment_queries and the others).
  return case is_payment_job_due.action
    when 'query-open' then exists (
      select from public.payments as p
      where p.status in ('initiating', 'processing')
        and (p.next_query_at <= now() or p.created_at < now()
          - case when p.checkout_request_id is null then interval '15 minutes' else interval '1 day' end)
    )
    when 'send-refunds' then exists (
      select from public.refunds as r
      where r.status = 'approved'
        or (r.status in ('sent', 'unknown') and r.next_check_at <= now())
        or (r.status = 'sending' and r.sent_at < now() - interval '2 minutes')
    ) or exists (
      select from public.refunds as r
      join public.mpesa_transactions as known on known.receipt = r.receipt and known.amount < r.amount
      where r.status in ('requested', 'approved')
    ) or exists (
      select from public.payment_tests as t
      where t.status in ('initiating', 'processing')
        and (t.next_query_at <= now() or t.created_at < now()
          - case when t.checkout_request_id is null then interval '15 minutes' else interval '1 day' end)
    )
    when 'take-up-till' then exists (
      select from public.payment_messages as m
      where m.source = 'confirmation' and m.outcome is null and m.received_at < now() - interval '30 seconds'
    ) or exists (
      select from public.payment_messages as m
      where m.outcome = 'fault' and m.received_at < now() - interval '30 seconds'
    )
    when 'pull-statement' then exists (
      select from private.mpesa_registrations as registered where registered.kind = 'statement'
    ) and not exists (
      select from public.statement_pulls as s
      where (s.outcome = 'running' and s.leased_until >= now())
        or (s.outcome = 'complete' and s.finished_at > now() - interval '30 minutes')
        or (s.outcome = 'failed' and s.finished_at > now() - interval '5 minutes')
    )
    else false
  end;
end
$$;
comment on function private.is_payment_job_due(text) is
  'Whether the payment function would find work for this action now.';

create function public.claim_payment_job(action text) returns boolean
language plpgsql volatile security definer
set search_path = ''
as $$
declare
  every constant interval := case
    when claim_payment_job.action in ('query-open', 'send-refunds') then interval '3 seconds'
    when claim_payment_job.action = 'take-up-till' then interval '30 seconds'
    when claim_payment_job.action = 'pull-statement' then interval '1 minute'
  end;
begin
  if every is null then
    return false;
  end if;
  if private.is_payment_job_due(claim_payment_job.action) then
    return private.count_hit('payment_jobs', claim_payment_job.action, every) = 1;
  end if;
  -- Without work, a call now and then: a due date that this function does not know must not wait for ever.
  return private.hits_so_far('idle_payment_jobs', claim_payment_job.action, interval '10 minutes') = 0
    and private.count_hit('idle_payment_jobs', claim_payment_job.action, interval '10 minutes') = 1;
end
$$;
comment on function public.claim_payment_job(text) is
  'Whether the calling process is to call the payment function with this action now. Of all processes one is, once per interval while there is work, and otherwise once in 10 minutes.';
grant execute on function public.claim_payment_job(text) to service_role;

alter publication supabase_realtime add table public.search_synonyms;
