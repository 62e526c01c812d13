-- A payment that M-PESA told of with another amount is looked at by staff: until they are done the customer is told so in place of
-- being asked to pay, and when they are done the order can be paid, or gives its units back.

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
  doubt text;
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
  -- What is being looked at is as little a secret as whether it is paid; how much came is.
  if found_order.payment_status = 'unpaid' then
    select case
      when bool_or(p.status = 'review') then 'review'
      -- Money of an unpaid order was on its way back already when it turned out to be the order's.
      when bool_or(p.status = 'completed' and p.refunded_at is null) then 'goes_back'
      when (array_agg(p.status order by p.created_at desc))[1] = 'unresolved' then 'unresolved'
    end into doubt
    from public.payments as p
    where p.order_id = found_order.id;
  end if;
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
  end || case
    when doubt is not null then jsonb_build_object('payment_check', doubt)
    else '{}'
  end;
end
$$;
comment on function public.track_order(text, text, text) is
  'An order by its tracking number: status, items and total for anyone; personal data in full only with the access key or the last four digits of the phone. payment_check tells of an unpaid order that staff look at a payment (review) or send it back (goes_back), or that M-PESA never told how the last one ended (unresolved). Null when there is none.';

-- The order's row does not change with it, so who follows the order would not hear of it.
create function private.tell_followers_of_check() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  perform realtime.send(
    jsonb_build_object(
      'id', o.id,
      'tracking_number', o.tracking_number,
      'status', private.told_status(o.status),
      'payment_status', o.payment_status,
      'updated_at', o.updated_at
    ),
    'UPDATE',
    'order-' || o.id,
    false
  )
  from public.orders as o
  where o.id = new.order_id;
  return null;
end
$$;
create trigger payments_tell_followers_of_a_check after update of status, refunded_at on public.payments
  for each row
  when (
    old.refunded_at is distinct from new.refunded_at or (old.status <> new.status and (
      old.status in ('review', 'unresolved') or new.status in ('review', 'unresolved') or new.needs_refund
    ))
  )
  execute function private.tell_followers_of_check();

-- Staff are done --------------------------------------------------------------------------------------------------------

create function private.end_reviews() returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  looked_at record;
begin
  for looked_at in
    select o.id as order_id, p.id as payment_id
    from public.payments as p
    join public.orders as o on o.id = p.order_id
    where p.status = 'review' and (
      case
        when exists (select from public.mpesa_transactions as t where t.attempt_id = p.id) then not exists (
          -- Money is dealt with once it is another payment's, went back, or was noted.
          select from public.mpesa_transactions as t
          where t.attempt_id = p.id and t.payment_id is null and coalesce(t.resolution, '') not in ('accepted', 'not_an_order')
            and not exists (select from public.refunds as r where r.receipt = t.receipt and r.status = 'completed')
        )
        else 'accepted' = (
          select e.kind from public.reconciliation_events as e where e.payment_id = p.id order by e.id desc limit 1
        )
      end
    )
    order by o.id
    for update of o skip locked
  loop
    -- When it was told of stays: that is the day on which it stands in the books.
    update public.payments as p set status = 'failed' where p.id = looked_at.payment_id and p.status = 'review';
    -- Who was kept waiting has the time to pay again.
    update public.orders as o
    set reserved_until = greatest(
      o.reserved_until, now() + (select make_interval(mins => s.reservation_minutes) from public.store_settings as s)
    )
    where o.id = looked_at.order_id and o.payment_status = 'unpaid' and o.status <> 'cancelled' and o.reserved_until is not null;
  end loop;
end
$$;
comment on function private.end_reviews() is
  'Ends the attempts under review whose money staff have dealt with. A success that comes later still supersedes it.';

create or replace function public.expire_reservations() returns integer
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  due uuid[];
  expired uuid;
begin
  perform pg_advisory_xact_lock(hashtext('expire_reservations'));
  perform private.end_reviews();
  select array_agg(o.id) into due from (
    select o.id from public.orders as o
    where o.payment_status = 'unpaid' and o.reserved_until is not null
      -- What staff cancelled gives its units back too.
      and (o.status = 'cancelled' or (o.status = 'pending' and o.reserved_until < now()))
      -- Not before a final answer on an open prompt.
      and not exists (
        select from public.payments as p where p.order_id = o.id and p.status in ('initiating', 'processing', 'review')
      )
    order by o.reserved_until
    limit 200
    for update skip locked
  ) as o;
  -- Asked again under the lock: a payment may have begun while we were waiting for it.
  select coalesce(array_agg(id), '{}') into due from unnest(due) as o (id)
  where not exists (
    select from public.payments as p where p.order_id = o.id and p.status in ('initiating', 'processing', 'review')
  );
  -- All of them before the first is changed, as whoever renames their category does.
  perform from public.products as p
  where p.id in (select i.product_id from public.order_items as i where i.order_id = any (due))
  order by p.id
  for update;
  foreach expired in array due loop
    perform private.return_units(expired);
    update public.orders as o
    set status = 'cancelled', reserved_until = null, updated_at = now()
    where o.id = expired;
  end loop;
  return cardinality(due);
end
$$;

create or replace function private.reconciliation_rows(since timestamptz, until timestamptz)
returns table (
  id text,
  happened_at timestamptz,
  kind text,
  is_open boolean,
  receipt text,
  our_amount integer,
  their_amount integer,
  payment_id uuid,
  payment_status text,
  method text,
  needs_refund boolean,
  refunded_at timestamptz,
  refund_status text,
  order_id uuid,
  order_number text,
  tracking_number text,
  customer_name text,
  charge integer,
  order_payment_status text,
  reference text,
  payer_name text,
  payer_phone text,
  heard_by_confirmation_at timestamptz,
  heard_by_statement_at timestamptz,
  resolution text
)
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
declare
  coverage tstzmultirange := private.statement_coverage();
begin
  return query
  with theirs as (
    select t.receipt, t.amount, t.reference, t.payer_name, t.payer_phone, t.transacted_at, t.payment_id, t.attempt_id, t.order_id,
      t.heard_by_confirmation_at, t.heard_by_statement_at, t.resolution
    from public.mpesa_transactions as t
    where t.transacted_at >= reconciliation_rows.since and t.transacted_at < reconciliation_rows.until
      -- A member's own shilling is no order's.
      and not exists (select from public.payment_tests as k where k.receipt = t.receipt)
  ),
  ours as (
    select p.id
    from public.payments as p
    where p.status = 'completed'
      and p.completed_at >= reconciliation_rows.since and p.completed_at < reconciliation_rows.until
      and not exists (select from public.mpesa_transactions as t where t.payment_id = p.id)
    union all
    select p.id
    from public.payments as p
    where (p.status = 'review' or (p.status = 'failed' and exists (
        -- Looked at, and ended by that.
        select from public.reconciliation_events as e where e.payment_id = p.id and e.kind = 'accepted'
      )))
      and p.updated_at >= reconciliation_rows.since and p.updated_at < reconciliation_rows.until
      and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id)
  ),
  beside as (
    select t.receipt as told, t.amount as came, t.reference, t.payer_name, t.payer_phone, t.transacted_at,
      t.heard_by_confirmation_at, t.heard_by_statement_at, t.resolution, t.attempt_id, t.order_id as named, t.payment_id as money
    from theirs as t
    union all
    select null, null, null, null, null, null, null, null, (
      -- Of what is only in our books the decision is the last word of its history.
      select nullif(e.kind, 'reopened') from public.reconciliation_events as e
      where e.payment_id = o.id order by e.id desc limit 1
    ), null, null, o.id
    from ours as o
  ),
  known as (
    select b.*, p.id as p_id, p.receipt as p_receipt, p.amount as p_amount, p.status as p_status, p.method as p_method,
      p.needs_refund as p_needs_refund, p.refunded_at as p_refunded_at, p.completed_at as p_completed_at,
      p.created_at as p_created_at, p.updated_at as p_updated_at,
      o.id as o_id, o.order_number as o_number, o.tracking_number as o_tracking, o.customer_name as o_customer,
      (o.total_amount + 99) / 100 * 100 as o_charge, o.payment_status as o_payment_status,
      (
        select r.status from public.refunds as r
        where r.payment_id = p.id or r.receipt = coalesce(b.told, p.receipt)
        order by r.status in ('failed', 'withdrawn'), r.created_at desc
        limit 1
      ) as r_status
    from beside as b
    -- The attempt that was told of with a wrong amount stands beside it.
    left join public.payments as p on p.id = coalesce(b.money, b.attempt_id)
    -- Less than the charge stands beside the order that its reference names.
    left join public.orders as o on o.id = coalesce(p.order_id, b.named)
  ),
  judged as (
    select k.*,
      case
        when k.told is not null and k.money is null then case when k.attempt_id is null and k.named is null then 'missing_here' else 'wrong_amount' end
        when k.p_status in ('review', 'failed') then 'wrong_amount'
        when k.p_needs_refund then 'double'
        when k.came <> k.p_amount or k.p_amount <> k.o_charge then 'wrong_amount'
        when k.told is not null then 'matched'
        when coverage @> tstzrange(k.p_created_at, k.p_completed_at + interval '10 minutes') then 'missing_there'
        else 'not_compared'
      end as verdict,
      coalesce(k.r_status, 'failed') not in ('failed', 'withdrawn') as is_refunding
    from known as k
  )
  select
    coalesce(j.told, j.p_id::text),
    coalesce(j.transacted_at, j.p_completed_at, j.p_updated_at),
    j.verdict,
    case
      when j.verdict in ('matched', 'not_compared') or j.is_refunding or j.resolution in ('accepted', 'not_an_order') then false
      when j.verdict = 'double' then j.p_refunded_at is null
      when j.verdict = 'wrong_amount' and j.money is not null and j.p_status = 'completed'
        then j.came <> j.p_amount or j.o_payment_status = 'needs_decision'
      else true
    end,
    coalesce(j.told, j.p_receipt),
    case when j.p_status in ('completed', 'review') then j.p_amount end,
    j.came,
    j.p_id,
    j.p_status,
    j.p_method,
    coalesce(j.p_needs_refund, false),
    j.p_refunded_at,
    j.r_status,
    j.o_id,
    j.o_number,
    j.o_tracking,
    j.o_customer,
    j.o_charge,
    j.o_payment_status,
    j.reference,
    j.payer_name,
    j.payer_phone,
    j.heard_by_confirmation_at,
    j.heard_by_statement_at,
    j.resolution
  from judged as j;
end
$$;
