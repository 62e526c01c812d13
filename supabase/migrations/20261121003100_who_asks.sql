-- Who is asking: staff only as long as their account and their session last, and networks by what belongs to one customer.

create or replace function public.is_admin() returns boolean
language sql stable security definer
set search_path = ''
as $$
  select exists (
    select from public.admin_profiles as profile
    join auth.users as account on account.id = profile.user_id
    where profile.user_id = (select auth.uid()) and profile.is_active
      and account.deleted_at is null and (account.banned_until is null or account.banned_until <= now())
  ) and (
    (select auth.jwt() ->> 'aal') is not distinct from 'aal2'
    or not exists (
      select from auth.mfa_factors where user_id = (select auth.uid()) and status = 'verified'
    )
  ) and (
    -- A token outlives its session by up to an hour; what staff may do ends with the session. One whose refresh token
    -- was stolen keeps its row, and has come to its end all the same.
    (select auth.jwt() ->> 'session_id') is null
    or exists (
      select from auth.sessions as session
      where session.id = (select (auth.jwt() ->> 'session_id')::uuid) and session.user_id = (select auth.uid())
        and (session.not_after is null or session.not_after > now())
    )
  );
$$;
comment on function public.is_admin() is
  'Whether the request comes from active staff, neither banned nor deleted, in a session that goes on, who have passed their second factor if they have one. Every staff policy asks this.';

create or replace function private.caller_address() returns text
language plpgsql stable
set search_path = ''
as $$
declare
  address text := nullif(trim(split_part(
    coalesce(nullif(current_setting('request.headers', true), ''), '{}')::jsonb ->> 'x-forwarded-for', ',', 1
  )), '');
begin
  if address like '%:%' then
    -- One customer of a provider has at least a /64 of its addresses, so that limits on each would be none.
    return host(network(set_masklen(address::inet, 64))) || '/64';
  end if;
  return address;
exception when invalid_text_representation then
  return address;
end
$$;
comment on function private.caller_address() is
  'The network address of the request, of IPv6 the network; null inside the house.';

create or replace function public.track_order(
  tracking_number text,
  access_key text default null,
  phone_last_four text default null
) returns jsonb
language plpgsql volatile security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  wanted text := upper(trim(track_order.tracking_number));
  caller text := coalesce(private.caller_address(), 'unknown');
  found_order public.orders;
  key text;
  is_open boolean := false;
  waiting bigint;
begin
  if private.hits_so_far('track_order_misses', caller, interval '10 minutes') >= 60 then
    perform private.refuse(429, 'too_many_lookups', 'Too many look-ups. Please try again in a few minutes');
  end if;
  select * into found_order from public.orders as o where o.tracking_number = wanted;
  if not found then
    perform private.count_hit('track_order_misses', caller, interval '10 minutes');
    return null;
  end if;

  select k.access_key into key from private.order_keys as k where k.order_id = found_order.id;
  is_open := coalesce(key = track_order.access_key, false);
  if not is_open and nullif(trim(track_order.phone_last_four), '') is not null then
    -- Four digits are guessed in 10,000 tries: so there are only a few, and one after the other, that each is counted
    -- before the next is looked at. Few for an order are still many for somebody who goes through all the orders there are.
    perform pg_advisory_xact_lock(hashtext('track_order_phone ' || wanted));
    if private.hits_so_far('track_order_digits', caller, interval '1 hour') >= 60 then
      perform private.refuse(429, 'too_many_guesses', 'Too many wrong digits from your network. Please try again in an hour');
    end if;
    if private.hits_so_far('track_order_phone', wanted, interval '1 hour') >= 5 then
      perform private.refuse(429, 'too_many_guesses', 'Too many wrong digits for this order. Please try again in an hour');
    end if;
    is_open := right(found_order.customer_phone, 4) = trim(track_order.phone_last_four);
    if not is_open then
      perform private.count_hit('track_order_phone', wanted, interval '1 hour');
      perform private.count_hit('track_order_digits', caller, interval '1 hour');
    end if;
  end if;

  -- What came under the order's number and is less than its charge: told to the customer alone, for anybody can send it.
  select sum(t.amount) into waiting
  from public.mpesa_transactions as t
  where t.order_id = found_order.id and t.payment_id is null and t.resolution is null;
  return jsonb_build_object(
    'id', found_order.id,
    'tracking_number', found_order.tracking_number,
    'status', private.told_status(found_order.status),
    'payment_status', found_order.payment_status,
    'delivery_fee', found_order.delivery_fee,
    'total_amount', found_order.total_amount,
    'created_at', found_order.created_at,
    'updated_at', found_order.updated_at,
    'is_masked', not is_open,
    'customer_name', case when is_open then found_order.customer_name else private.masked_name(found_order.customer_name) end,
    'customer_phone', case when is_open then found_order.customer_phone else private.masked_phone(found_order.customer_phone) end,
    'shipping_address', case when is_open then found_order.shipping_address end,
    'delivery_notes', case when is_open then found_order.delivery_notes end,
    'order_items', coalesce((
      select jsonb_agg(jsonb_build_object(
        'id', i.id,
        'quantity', i.quantity,
        'unit_price', i.unit_price,
        'product', jsonb_build_object(
          'name', coalesce(p.name, i.product_name),
          'image_url', p.image_url,
          'category', p.category,
          'slug', case when p.is_active then p.slug end
        )
      ) order by i.created_at, i.id)
      from public.order_items as i
      left join public.products as p on p.id = i.product_id
      where i.order_id = found_order.id
    ), '[]'::jsonb)
  ) || case
    when is_open and waiting > 0 then jsonb_build_object('part_paid', waiting)
    else '{}'
  end;
end
$$;
