create or replace function private.is_within_limit(limit_name text, subject text default '') returns boolean
language plpgsql stable set search_path = '' set enable_seqscan = off as $$
declare
  rule private.limits;
begin
  select * into strict rule from private.limits as l where l.name = is_within_limit.limit_name;
  return not exists (
    select from unnest(private.caller_networks()) as caller (network)
    where private.hits_so_far(rule.name, rtrim(caller.network || ' ' || is_within_limit.subject), rule.within)
      >= rule.allowed * private.allowance_factor(caller.network)
  );
end
$$;

comment on function private.is_within_limit is
  'Whether the caller has a call left in this limit, in each network. Counts nothing. True without an IP address.';
