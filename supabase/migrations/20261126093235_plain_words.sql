drop function private.count_in_list(private.list_filters);

drop function private.find_in_list(private.list_filters,timestamp with time zone,uuid,integer);

drop function private.list_conditions(private.list_filters);

create or replace function public.orders_by_access_key(access_keys text[]) returns jsonb
language plpgsql volatile security definer
set search_path = ''
-- Without statistics the embedded database would scan all keys.
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  answer jsonb;
begin
  select jsonb_agg(private.order_facts(o, true) order by o.created_at desc) into answer
  from (select distinct left(requested.access_key, 64) as access_key from unnest(access_keys[1:20]) as requested (access_key)) as known
  join private.order_keys as k on k.access_key = known.access_key
  join public.orders as o on o.id = k.order_id;
  -- Valid keys are not counted, as in track_order.
  if answer is null and not private.count_call('order_lookups') then
    return private.refusal_answer('PT429', 'Too many look-ups. Please try again in a few minutes', 'too_many_lookups', '');
  end if;
  return coalesce(answer, '[]'::jsonb);
end
$$;

comment on function public.orders_by_access_key is
  'State of the orders with these access keys, at most 20, newest first, without personal data. Calls without a valid key count as order lookups.';

-- Execution rights
grant execute on function public.track_order, public.order_receipt, public.orders_by_access_key
  to anon, authenticated, service_role;

create or replace function public.begin_payment(
  order_id uuid, tracking_number text, phone text, callback_secret text, expected_cents integer default null
) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  payer text := private.normalised_phone(left(begin_payment.phone, 40));
  paid_order public.orders;
  current_attempt public.payments;
  detail text;
  hint text;
begin
  if payer is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid phone number');
  end if;
  -- The lock on the order's row serialises its attempts, settlements and expiry.
  select * into paid_order from public.orders as o
  where o.id = begin_payment.order_id and o.tracking_number = begin_payment.tracking_number
  for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  select * into current_attempt from public.payments as p
  where p.order_id = paid_order.id and (
    p.status in ('initiating', 'processing', 'review')
    -- Money that does not pay the order allows another attempt.
    or (p.status = 'completed' and not p.needs_refund and (
      paid_order.payment_status in ('paid', 'refunded')
      or (paid_order.payment_status = 'needs_review' and p.charge_cents = paid_order.charge_cents)
    ))
  )
  order by (p.status = 'completed') desc, p.created_at desc
  limit 1;
  if found then
    return jsonb_build_object('is_new', false, 'payment', to_jsonb(current_attempt));
  end if;
  if paid_order.payment_status = 'needs_review' then
    perform private.refuse(409, 'payment_needs_review',
      'Money for this order has reached us in another amount. We will call you about it: please do not pay again');
  elsif paid_order.payment_status <> 'unpaid' then
    perform private.refuse(409, 'order_already_paid', 'This order is already paid');
  elsif paid_order.status = 'cancelled' then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  end if;
  if paid_order.charge_cents < 100 then
    perform private.refuse(409, 'nothing_to_pay', 'There is nothing to pay for this order');
  elsif begin_payment.expected_cents not in (paid_order.total_amount, paid_order.charge_cents) then
    perform private.refuse(409, 'amount_changed', 'The amount does not match the order');
  end if;

  -- Without limits, one order could send prompts to many phones.
  if not private.count_call('payment_prompts') then
    return private.refusal_answer('PT429', 'Too many payments from your network. Please try again in a few minutes',
      'too_many_payments', '');
  end if;
  if not private.count_call('payment_prompts_of_order', paid_order.id::text) then
    return private.refusal_answer('PT429', 'Too many payment attempts for this order. Please wait a few minutes',
      'too_many_attempts', '');
  end if;
  if not private.count_call('payment_prompts_to_phone', payer) then
    return private.refusal_answer('PT429', 'Too many payment prompts to this phone. Please wait a few minutes',
      'too_many_prompts', '');
  end if;
  if not private.may_prompt_phone(payer, paid_order) then
    return private.refusal_answer('PT429',
      'This phone had many unpaid payment prompts today. Please pay from another phone, or contact us',
      'too_many_unanswered_prompts', '');
  end if;

  -- Refusals from here on return, so that the calls stay counted.
  begin
    insert into public.payments (order_id, phone, charge_cents, next_query_at)
    values (paid_order.id, payer, paid_order.charge_cents, null)
    returning * into current_attempt;
    insert into private.payment_secrets (payment_id, callback_secret)
    values (current_attempt.id, begin_payment.callback_secret);
    -- Products are locked last, as everywhere.
    perform private.reserve_for_prompt(paid_order.id);
  exception when sqlstate 'PT000' then
    get stacked diagnostics detail = pg_exception_detail, hint = pg_exception_hint;
    return private.refusal_answer(sqlstate, sqlerrm, detail, hint);
  end;
  return jsonb_build_object(
    'is_new', true, 'payment', to_jsonb(current_attempt), 'tracking_number', paid_order.tracking_number
  );
end
$$;

comment on function public.begin_payment is
  'Opens a payment attempt for an order, or returns the open or successful one. id and tracking number must belong to one order. A prompt may be sent only if is_new.';

-- M-PESA allows few queries per minute. Prompts of one network must not delay the payments of others.
create or replace function public.lease_payment_queries(at_most integer default 1, per_minute integer default 5)
returns setof public.payments
language plpgsql security definer set search_path = '' as $$
begin
  perform pg_advisory_xact_lock(hashtext('lease_payment_queries'));
  -- An attempt whose push had no response cannot be queried, and its callback arrives within 15 minutes or never. M-PESA reports
  -- no results after a day.
  update public.payments as p
  set status = 'unresolved', next_query_at = null, updated_at = now()
  where p.status in ('initiating', 'processing')
    and p.created_at < now() - case when p.checkout_request_id is null then interval '15 minutes' else interval '1 day' end;
  -- All processes share the merchant's rate limit: one batch, then none until the limit allows the next.
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
  ), network_queries as materialized (
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
    left join network_queries as n on n.widest_network = w.widest_network
    where p.status = 'processing'
    -- Orders before tests, the network with the fewest queries first, then the attempt that has waited longest.
    order by p.purpose = 'test', coalesce(n.queries, 0), w.next_query_at
    limit lease_payment_queries.at_most
    -- An attempt that is being settled needs no query.
    for update of p skip locked
  )
  update public.payments as p
  set query_count = p.query_count + 1,
      -- A larger exponent would overflow the interval.
      next_query_at = now() + least(interval '10 seconds' * power(1.5, least(p.query_count, 20)), interval '10 minutes'),
      updated_at = now()
  from due
  where p.id = due.id
  returning p.*;
end
$$;

comment on function public.lease_payment_queries is
  'Leases attempts to query now: at most at_most at once, and per_minute; first those of the networks with the fewest queries in the last 15 minutes. Each is due again at growing intervals until it is settled.';

-- Execution rights
grant execute on function public.begin_payment, public.begin_payment_test, public.record_push, public.find_payment,
  public.find_payment_by_secret, public.lease_payment_queries to service_role;

create or replace function public.approve_refund(refund_id uuid) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member();
  approved public.refunds := private.lock_refund(approve_refund.refund_id);
begin
  if approved.status <> 'requested' then
    perform private.refuse(409, 'refund_changed', 'This refund was changed in the meantime. Please look at it again');
  elsif approved.requested_by = member then
    perform private.refuse(403, 'second_member_needed', 'You requested this refund, so a colleague must approve it');
  end if;
  update public.refunds as r
  set status = 'approved', approved_by = member, approved_by_email = private.email_of(member), updated_at = now()
  where r.id = approved.id
  returning * into approved;
  return approved;
end
$$;

comment on function public.approve_refund is 'Approves, as a second staff member, a refund above the limit.';

-- Execution rights
grant execute on function public.request_refund, public.approve_refund, public.withdraw_refund to authenticated;

create or replace function public.close_unknown_refund(refund_id uuid, refund_receipt text default null) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member();
  closed public.refunds := private.lock_refund(close_unknown_refund.refund_id);
begin
  if closed.status <> 'unknown' then
    perform private.refuse(409, 'refund_changed', 'This refund was changed in the meantime. Please look at it again');
  elsif close_unknown_refund.refund_receipt is not null then
    return private.complete_refund(closed.id, private.check_refund_receipt(close_unknown_refund.refund_receipt));
  end if;
  if closed.sent_at > now() - interval '30 minutes' then
    perform private.refuse(409, 'refund_too_fresh', 'M-PESA may still be working on it. Please wait until half an hour has passed');
  end if;
  update public.refunds as r
  set status = 'failed', next_check_at = null, updated_at = now(),
      result_description = 'A member of staff found that nothing was sent'
  where r.id = closed.id
  returning * into closed;
  return closed;
end
$$;

comment on function public.close_unknown_refund is
  'Resolves a refund with unknown result: with its receipt, or, half an hour after it was sent, as not sent.';

create or replace function public.lease_refunds(at_most integer default 1)
returns table (work text, refund public.refunds, secret text)
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  leased public.refunds;
  excessive record;
  remaining integer := lease_refunds.at_most;
begin
  perform pg_advisory_xact_lock(hashtext('lease_refunds'));
  -- M-PESA reported less than staff typed: no more is refunded than was received. First, since it locks more than the refund.
  for excessive in
    select r.id, reported.received_cents
    from public.refunds as r
    join public.mpesa_transactions as reported on reported.receipt = r.receipt and reported.received_cents < r.refund_cents
    where r.status in ('requested', 'approved')
    order by r.id
  loop
    perform private.lock_refund(excessive.id);
    update public.refunds as r
    set status = 'withdrawn', updated_at = now(),
        result_description = format('M-PESA reported %s cents under this receipt, %s were to be refunded', excessive.received_cents, r.refund_cents)
    where r.id = excessive.id and r.status in ('requested', 'approved') and excessive.received_cents < r.refund_cents;
  end loop;

  for leased in
    select * from public.refunds as r
    -- Not carried out for certain: retried at growing intervals.
    where r.status = 'approved'
      and (r.tries = 0 or r.updated_at < now() - least(interval '15 seconds' * power(2, least(r.tries, 10)), interval '10 minutes'))
    order by r.created_at limit remaining for update skip locked
  loop
    remaining := remaining - 1;
    insert into private.refund_secrets (refund_id, result_secret)
    values (leased.id, replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''))
    on conflict (refund_id) do nothing;
    select s.result_secret into strict secret from private.refund_secrets as s where s.refund_id = leased.id;
    update public.refunds as r
    set status = 'sending', sent_at = now(), tries = r.tries + 1, updated_at = now()
    where r.id = leased.id returning * into leased;
    work := 'send';
    refund := leased;
    return next;
  end loop;

  for leased in
    select * from public.refunds as r
    where (r.status in ('sent', 'unknown') and r.next_check_at <= now())
      -- The process that sent it ended before M-PESA's response: it may have been carried out.
      or (r.status = 'sending' and r.sent_at < now() - interval '2 minutes')
    order by coalesce(r.next_check_at, r.sent_at) limit remaining for update skip locked
  loop
    -- One update only: a second update of the row would check its foreign keys, and wait for their locks.
    update public.refunds as r
    set status = case when r.status = 'sending' or r.sent_at < now() - interval '10 minutes' then 'unknown' else r.status end,
        result_description = case
          when r.status = 'sending' then 'The shop was interrupted while it sent the request to M-PESA'
          else r.result_description
        end,
        check_count = r.check_count + 1,
        -- A larger exponent would overflow the interval.
        next_check_at = now() + least(interval '1 minute' * power(1.6, least(r.check_count, 15)), interval '1 hour'),
        updated_at = now()
    where r.id = leased.id
    returning * into leased;
    work := 'query';
    refund := leased;
    select s.result_secret into secret from private.refund_secrets as s where s.refund_id = leased.id;
    return next;
  end loop;
end
$$;

comment on function public.lease_refunds is
  'Leases refunds to send, each once (work = send), and refunds to query, at growing intervals (work = query), with the secret of their URLs.';

-- Execution rights
grant execute on function public.note_refund_by_hand, public.close_unknown_refund, public.acknowledge_sent_twice
  to authenticated;

grant execute on function public.lease_refunds, public.record_reversal_push, public.settle_reversal,
  public.find_refund_by_secret to service_role;

create or replace function private.refuse_prompt_in_pause() returns void
language plpgsql set search_path = '' as $$
declare
  must_wait boolean;
begin
  select paused.until > now()
    or coalesce(paused.until > now() - interval '1 hour' and paused.probe_at > now() - interval '2 minutes', false)
  into must_wait
  from private.prompt_pause as paused for update;
  if not must_wait then
    -- This prompt is the probe.
    update private.prompt_pause as paused set probe_at = now() where true;
  elsif must_wait then
    perform private.refuse(409, 'prompts_paused',
      'M-PESA prompts do not work right now. Your order is saved: please try again in a few minutes');
  end if;
end
$$;

create or replace function private.short_search_rows() returns integer
language sql immutable
return 5000;

comment on function private.short_search_rows is
  'Number of newest rows that are searched if every part of the search has fewer than three letters, because trigram indexes do not contain shorter parts.';

-- Conditions read the row's own items and rider in a scalar subquery. With EXISTS PostgreSQL used a hashed subplan and read all items
-- of the shop for the few orders of a search.
create or replace function private.list_conditions(
  filters private.list_filters, out by_index text, out by_row text, out candidates text, out is_broad boolean
)
language plpgsql stable set search_path = '' as $$
declare
  is_orders constant boolean := filters.list = 'orders';
  own constant text := case when is_orders then 'o' else 'd' end;
  -- As in the indexes by words.
  folded constant text := $sql$translate(lower(%s), 'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu')$sql$;
  order_text constant text := format(folded, $sql$o.order_number || E'\n' || split_part(o.tracking_number, '-', 3) || E'\n' || o.customer_name || E'\n' || o.customer_email || E'\n' || o.customer_phone || E'\n' || replace(o.customer_phone, '+254', '0') || E'\n' || o.shipping_address || E'\n' || o.city$sql$);
  item_text constant text := format(folded, 'i.product_name');
  rider_text constant text := format(folded, $sql$coalesce(d.delivery_person, '') || E'\n' || regexp_replace(coalesce(d.delivery_phone, ''), '[^0-9]', '', 'g')$sql$);
  is_open constant text := $sql$o.status in ('pending', 'processing', 'shipped', 'out_for_delivery')$sql$;
  is_open_delivery constant text := $sql$d.delivery_status in ('pending', 'assigned', 'picked_up', 'in_transit')$sql$;
  is_refund_due constant text := $sql$((o.payment_status = 'paid' and o.status = 'cancelled') or exists (
    select from public.payments as p where p.order_id = o.id and p.needs_refund and p.refunded_at is null and p.status = 'completed'))$sql$;
  is_review_due constant text := $sql$(o.payment_status = 'needs_review' or (o.payment_status = 'unpaid' and exists (
    select from public.payments as p where p.order_id = o.id and p.status = 'review')))$sql$;
  rider_name constant text := lower(trim(left(filters.rider, 120)));
  typed record;
  indexed text[] := '{}';
  checked text[] := '{}';
  pattern text;
  in_order text[] := '{}';
  anywhere text[] := '{}';
begin
  typed := private.read_list_search(filters.search);
  is_broad := true;

  if filters.from_day is not null then
    indexed := indexed || format($sql$%s.created_at >= %L::date::timestamp at time zone 'Africa/Nairobi'$sql$, own, filters.from_day);
  end if;
  if filters.until_day is not null then
    indexed := indexed || format($sql$%s.created_at < (%L::date + 1)::timestamp at time zone 'Africa/Nairobi'$sql$, own, filters.until_day);
  end if;

  if is_orders then
    indexed := indexed || case
      when filters.status is null then null
      -- Staff choose "Shipped"; a delivery that leaves makes its order "Out For Delivery".
      when filters.status = 'shipped' then is_open || $sql$ and o.status in ('shipped', 'out_for_delivery')$sql$
      when filters.status in ('pending', 'processing', 'out_for_delivery') then is_open || format(' and o.status = %L', filters.status)
      else format('o.status = %L', filters.status)
    end;
    indexed := indexed || case filters.payment
      when 'paid' then $sql$o.payment_status = 'paid' and o.status <> 'cancelled'$sql$
      -- A cancelled unpaid order owes nothing.
      when 'unpaid' then $sql$o.payment_status = 'unpaid' and o.status <> 'cancelled'$sql$
      when 'refunded' then $sql$o.payment_status = 'refunded'$sql$
      when 'needs_review' then null
      when 'refund_due' then null
      else case when filters.payment is not null then 'false' end
    end;
    indexed := indexed || case filters.due
      when 'prepare' then is_open || $sql$ and o.payment_status = 'paid' and o.status in ('pending', 'processing')$sql$
      when 'late' then is_open || $sql$ and o.payment_status = 'paid' and coalesce(
        (select d.created_at from public.deliveries as d where d.order_id = o.id), o.created_at
      ) < now() - private.delivery_promise()$sql$
      else case when filters.due is not null then 'false' end
    end;
  else
    indexed := indexed || case when filters.status is not null then format('d.delivery_status = %L', filters.status) end;
    indexed := indexed || case filters.due
      when 'late' then is_open_delivery || $sql$ and d.created_at < now() - private.delivery_promise()
        and (select o.status from public.orders as o where o.id = d.order_id) <> 'cancelled'$sql$
      else case when filters.due is not null then 'false' end
    end;
  end if;

  -- Conditions without an index in the order of the list, the rarest last: candidates come from it.
  if rider_name <> '' then
    if is_orders then
      checked := checked || format(
        'coalesce((select lower(d.delivery_person) = %L from public.deliveries as d where d.order_id = o.id), false)', rider_name
      );
      candidates := format('select d.order_id as id from public.deliveries as d where lower(d.delivery_person) = %L', rider_name);
    else
      indexed := indexed || format('lower(d.delivery_person) = %L', rider_name);
    end if;
  end if;
  if cardinality(typed.order_ids) > 0 then
    checked := checked || format('o.id = any (%L::uuid[])', typed.order_ids);
    candidates := format('select unnest(%L::uuid[]) as id', typed.order_ids);
    is_broad := false;
  elsif typed.words is not null then
    checked := checked || format($sql$(%1$s || E'\n' || coalesce((
      select string_agg(%2$s, E'\n') from public.order_items as i where i.order_id = o.id), '')%3$s like all (%4$L::text[])%5$s)$sql$,
      order_text, item_text, case when not is_orders then format($sql$ || E'\n' || %s$sql$, rider_text) end, typed.words,
      case when typed.digits is not null then
        format(' or %s like %L', order_text, typed.digits)
        || case when is_orders then '' else format(' or %s like %L', rider_text, typed.digits) end
      end
    );
    -- Words that are in no product or rider must be in the order itself, whose index finds all of them at once. Parts of fewer than
    -- three letters are not in trigram indexes.
    foreach pattern in array typed.words loop
      if pattern ~ '[[:alnum:]]{3}' then
        if private.is_in_item_names(pattern) or (not is_orders and private.is_in_rider_names(pattern)) then
          anywhere := anywhere || pattern;
        else
          in_order := in_order || pattern;
        end if;
      end if;
    end loop;
    -- Without longer parts only the newest rows are searched: candidates stay null, or are these rows and the orders with the digits.
    candidates := case
      when cardinality(in_order) > 0 then format('select o.id from public.orders as o where %s',
        (select string_agg(format('%s like %L', order_text, p.pattern), ' and ') from unnest(in_order) as p (pattern))
        || case when typed.digits is not null then format(' or %s like %L', order_text, typed.digits) else '' end)
      when cardinality(anywhere) > 0 then (
        select string_agg(format('(select i.order_id as id from public.order_items as i where %s like %L', item_text, p.pattern)
          || format(' union select o.id from public.orders as o where %s like %L', order_text, p.pattern)
          || case when is_orders then '' else
            format(' union select d.order_id from public.deliveries as d where %s like %L', rider_text, p.pattern) end
          || ')', ' intersect ')
        from unnest(anywhere) as p (pattern))
      when typed.digits is not null then format(
        '(select %s as id from public.%I as %s where %s order by %3$s.created_at desc, %3$s.id desc limit %s)
         union select o.id from public.orders as o where %s like %L',
        case when is_orders then 'o.id' else 'd.order_id' end, filters.list, own,
        coalesce(nullif(array_to_string(indexed, ' and '), ''), 'true'), private.short_search_rows(), order_text, typed.digits)
    end || case when typed.digits is not null and not is_orders then
      format(' union select d.order_id from public.deliveries as d where %s like %L', rider_text, typed.digits) else '' end;
  end if;
  if is_orders and filters.payment = 'needs_review' then
    -- Money that came too late or in part, or that M-PESA reports in another amount.
    checked := checked || is_review_due;
    candidates := $sql$
      select o.id from public.orders as o where o.payment_status = 'needs_review'
      union
      select p.order_id from public.payments as p where p.status = 'review'$sql$;
    is_broad := false;
  end if;
  if is_orders and filters.payment = 'refund_due' then
    checked := checked || is_refund_due;
    candidates := $sql$
      select o.id from public.orders as o where o.payment_status = 'paid' and o.status = 'cancelled'
      union
      select p.order_id from public.payments as p where p.needs_refund and p.refunded_at is null and p.status = 'completed'$sql$;
    is_broad := false;
  end if;
  by_index := coalesce(nullif(array_to_string(indexed, ' and '), ''), 'true');
  by_row := nullif(array_to_string(checked, ' and '), '');
end
$$;

comment on function private.list_conditions is
  'The filters of a staff list, orders (o) or deliveries (d with their order o), as conditions in SQL. by_index: on the list''s own table, served by an index in the order of the list; by_row: all others, or null; candidates: a query for the ids of orders that may match, or null to scan only private.short_search_rows() rows; is_broad: whether the newest rows are scanned first.';

create or replace function private.walk_list(
  list text, by_index text, by_row text, before_created_at timestamptz, before_id uuid, most integer, nearby integer,
  out found_ids uuid[], out is_whole_list boolean
)
language plpgsql stable
set search_path = ''
set jit = off
-- Scans an index in its order and stops early. Without statistics, which the embedded database never gathers, the
-- planner would gather and sort the whole list.
set enable_sort = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  own constant text := case when list = 'orders' then 'o' else 'd' end;
  near constant text := format(
    'select %1$s.* from public.%2$I as %1$s where %3$s%4$s order by %1$s.created_at desc, %1$s.id desc limit $3',
    own, list, by_index, case when before_id is not null then format(' and (%1$s.created_at, %1$s.id) < ($1, $2)', own) end
  );
begin
  execute format(
    'select array_agg(found.id) from (select %1$s.id from (%2$s) as %1$s%3$s where %4$s limit $4) as found',
    own, near,
    case when own = 'd' and by_row is not null then
      ' cross join lateral (select o.* from public.orders as o where o.id = d.order_id limit 1) as o' end,
    coalesce(by_row, 'true')
  ) into found_ids using before_created_at, before_id, nearby, most;
  is_whole_list := coalesce(cardinality(found_ids), 0) < most;
  if is_whole_list and by_row is not null then
    execute format('select count(*) < $3 from (%s) as near', near) into is_whole_list using before_created_at, before_id, nearby;
  end if;
end
$$;

comment on function private.walk_list is
  'The first rows that meet the conditions among the newest `nearby` rows of a staff list, and whether the list has no other matches.';

create or replace function private.rows_of_candidates(list text, by_index text, by_row text, candidates text) returns text
language sql immutable set search_path = '' as $$
  -- The limits keep the planner from reading every row for a few ids.
  select format(
    'with candidates as materialized (%1$s)
     select %2$s.id, %2$s.created_at
     from candidates as c
     cross join lateral (select o.* from public.orders as o where o.id = c.id limit 1) as o%3$s
     where %4$s and %5$s',
    candidates, case when list = 'orders' then 'o' else 'd' end,
    case when list <> 'orders' then
      ' cross join lateral (select d.* from public.deliveries as d where d.order_id = o.id limit 1) as d' end,
    by_index, by_row
  );
$$;

create or replace function private.find_in_list(
  filters private.list_filters, before_created_at timestamptz, before_id uuid, page_size integer
) returns uuid[]
language plpgsql stable set search_path = '' set jit = off as $$
declare
  most constant integer := least(greatest(coalesce(page_size, 50), 1), 1000);
  conditions record;
  found_ids uuid[];
  is_whole_list boolean := false;
  nearby integer;
begin
  conditions := private.list_conditions(filters);
  if conditions.is_broad then
    -- A few of the newest rows show whether a search is broad. Then its page is soon complete; rarer matches come from the candidates.
    foreach nearby in array case
      when conditions.by_row is null then array[most]
      when conditions.candidates is null then array[10 * most, greatest(private.short_search_rows(), 10 * most)]
      else array[10 * most, 40 * most]
    end loop
      select w.found_ids, w.is_whole_list into found_ids, is_whole_list
      from private.walk_list(filters.list, conditions.by_index, conditions.by_row, before_created_at, before_id, most, nearby) as w;
      exit when is_whole_list or coalesce(cardinality(found_ids), 0) = most
        or (conditions.candidates is not null and 8 * coalesce(cardinality(found_ids), 0) < most);
    end loop;
  end if;
  if conditions.candidates is not null and coalesce(cardinality(found_ids), 0) < most and not is_whole_list then
    execute format(
      'with found as materialized (%s)
       select array_agg(newest.id)
       from (
         select f.id from found as f where $2 is null or (f.created_at, f.id) < ($1, $2)
         order by f.created_at desc, f.id desc limit $3
       ) as newest',
      private.rows_of_candidates(filters.list, conditions.by_index, conditions.by_row, conditions.candidates)
    ) into found_ids using before_created_at, before_id, most;
  end if;
  return found_ids;
end
$$;

comment on function private.find_in_list is 'The ids of a page of a staff list, newest first.';

create or replace function private.count_in_list(filters private.list_filters) returns integer
language plpgsql stable set search_path = '' set jit = off as $$
declare
  conditions record;
  count integer;
begin
  conditions := private.list_conditions(filters);
  if filters.list = 'orders' and conditions.by_row is null and conditions.by_index = 'true' then
    select coalesce(sum(t.orders), 0) into count from private.daily_totals as t;
  elsif conditions.by_row is null then
    count := private.count_along_index(filters.list, conditions.by_index);
  elsif conditions.candidates is null then
    select coalesce(cardinality(w.found_ids), 0) into count
    from private.walk_list(filters.list, conditions.by_index, conditions.by_row, null, null, 1001, private.short_search_rows()) as w;
  else
    execute format(
      'select count(*) from (select from (%s) as found limit 1001) as bounded',
      private.rows_of_candidates(filters.list, conditions.by_index, conditions.by_row, conditions.candidates)
    ) into count;
  end if;
  return count;
end
$$;

comment on function private.count_in_list is
  'Number of rows of a staff list that match the filters, at most 10001, which means more than 10,000. For a search or rider at most 1001. All orders are counted exactly.';

create or replace function private.unsettled_money_reason(order_id uuid) returns text
language plpgsql stable set search_path = '' as $$
declare
  unsettled public.orders;
begin
  select * into unsettled from public.orders as o where o.id = unsettled_money_reason.order_id;
  return case
    when unsettled.payment_status = 'unpaid' and unsettled.status <> 'cancelled' then 'It waits for its payment'
    when unsettled.payment_status = 'needs_review' then 'Its payment needs review'
    when exists (
      select from public.payments as p where p.order_id = unsettled.id and p.status in ('initiating', 'processing', 'review')
    ) then 'A payment is being checked'
    -- M-PESA's statement reaches back 48 hours: until then it may still report money of a prompt that seemed to fail.
    when exists (
      select from public.payments as p
      where p.order_id = unsettled.id and p.status in ('failed', 'unresolved') and p.created_at > now() - interval '48 hours'
    ) then 'M-PESA may still report a payment'
    when exists (
      select from public.payments as p
      where p.order_id = unsettled.id and p.status = 'completed' and p.needs_refund and p.refunded_at is null
    ) or exists (
      select from public.payments as p
      join public.refunds as r on r.payment_id = p.id
      where p.order_id = unsettled.id and r.status not in ('completed', 'failed', 'withdrawn')
    ) then 'Money is on its way back'
    when exists (
      select from public.mpesa_transactions as t
      where t.order_id = unsettled.id and t.payment_id is null and t.resolution is null
    ) then 'Money under its number needs review'
  end;
end
$$;

comment on function private.unsettled_money_reason is
  'Why the money of an order is not settled yet, as a sentence. Null: settled. Until then the customer''s details are needed.';

create or replace function private.counted_page(path text) returns text
language sql stable set search_path = '' as $$
  -- Only existing pages have their own rows, so that requests cannot fill the table.
  select case
    when page in ('/', '/shop', '/contact', '/delivery', '/newsletter', '/track-order') then page
    -- Tracking numbers are not counted.
    when page like '/track-order/%' then '/track-order'
    when page ~ '^/(admin|api)(/|$)' then null
    when exists (select from public.products as p where page = '/shop/' || p.slug) then page
    else 'other'
  end
  from (select coalesce(nullif(rtrim(counted_page.path, '/'), ''), '/') as page) as visited;
$$;

comment on function private.counted_page is
  'The page under which a view is counted: a storefront page; ''other'' for unknown paths; null for staff screens.';

create or replace function public.request_backup() returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  if private.count_hit('backups', 'all', interval '10 minutes') > 5 then
    perform private.refuse(429, 'too_many_backups', 'A backup was just requested. Please wait a few minutes');
  end if;
  perform pg_catalog.pg_notify('backup_requests', '');
end
$$;

comment on function public.request_backup is
  'For staff and the secret key: requests a backup now. Its outcome is a new row of backups.';

-- Execution rights
grant execute on function public.request_backup to authenticated, service_role;
