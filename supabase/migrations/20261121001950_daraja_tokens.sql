-- The access token of M-PESA's interface, shared by all processes: a new one makes the one before invalid, so one asks
-- for all, and one at a time.

create unlogged table private.daraja_tokens (
  account text primary key,
  token text,
  fresh_until timestamptz,
  lease uuid,
  leased_until timestamptz
);
comment on table private.daraja_tokens is
  'The access token of each M-PESA account (a digest of its credentials), and who is asking for the next one. Of no worth after an hour.';
alter table private.daraja_tokens enable row level security;

create function public.lease_daraja_token(account text, stale_token text default null) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  known private.daraja_tokens;
begin
  insert into private.daraja_tokens (account) values (lease_daraja_token.account) on conflict do nothing;
  -- The row is the lock: two that ask at once are answered one after the other.
  select * into strict known from private.daraja_tokens as t where t.account = lease_daraja_token.account for update;
  if known.token is distinct from lease_daraja_token.stale_token and known.fresh_until > now() then
    return jsonb_build_object(
      'token', known.token,
      'fresh_for_ms', floor(extract(epoch from known.fresh_until - now()) * 1000)
    );
  end if;
  if known.leased_until > now() then
    return '{}';
  end if;
  -- Whoever asks is killed now and then: after ten seconds somebody else may.
  update private.daraja_tokens as t
  set lease = gen_random_uuid(), leased_until = now() + interval '10 seconds'
  where t.account = known.account
  returning t.lease into known.lease;
  return jsonb_build_object('lease', known.lease);
end
$$;
comment on function public.lease_daraja_token(text, text) is
  'The token while it is fresh and not the stale one; otherwise a lease to ask for the next, or {} while somebody else asks.';

create function public.keep_daraja_token(account text, lease uuid, token text, fresh_for_ms bigint) returns boolean
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
begin
  update private.daraja_tokens as t
  set token = coalesce(keep_daraja_token.token, t.token),
      fresh_until = case
        when keep_daraja_token.token is null then t.fresh_until
        else now() + keep_daraja_token.fresh_for_ms * interval '1 millisecond'
      end,
      lease = null,
      leased_until = null
  -- Whose lease ran out may hold a token that the next one has made invalid.
  where t.account = keep_daraja_token.account and t.lease = keep_daraja_token.lease;
  return found;
end
$$;
comment on function public.keep_daraja_token(text, uuid, text, bigint) is
  'Ends a lease: keeps the token it was for, or gives it up (token null) so that the next one may ask at once. Says whether it was still ours.';

grant execute on function
  public.lease_daraja_token(text, text),
  public.keep_daraja_token(text, uuid, text, bigint)
to service_role;
