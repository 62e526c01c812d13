drop index public.deliveries_by_words;

drop index public.order_items_by_words;

drop index public.orders_by_words;

create index orders_by_words on public.orders using gin (
  translate(
    lower(
      order_number || E'\n' || split_part(tracking_number, '-', 3) || E'\n' || customer_name || E'\n' || customer_email ||
      E'\n' || customer_phone || E'\n' || replace(customer_phone, '+254', '0') || E'\n' || shipping_address || E'\n' || city
    ),
    'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu'
  ) extensions.gin_trgm_ops
) with (fastupdate = off);

create index order_items_by_words on public.order_items using gin (
  translate(lower(product_name), 'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu') extensions.gin_trgm_ops
) with (fastupdate = off);

create index deliveries_by_words on public.deliveries using gin (
  translate(
    lower(coalesce(delivery_person, '') || E'\n' || regexp_replace(coalesce(delivery_phone, ''), '[^0-9]', '', 'g')),
    'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu'
  ) extensions.gin_trgm_ops
) with (fastupdate = off);

create or replace function private.read_list_search(search text, out words text[], out digits text, out order_ids uuid[])
language plpgsql stable
set search_path = ''
as $$
declare
  written text := trim(left(translate(lower(search), 'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu'), 200));
  typed_receipt text := upper(regexp_replace(written, '\s', '', 'g'));
begin
  if coalesce(written, '') = '' then
    return;
  end if;
  order_ids := array(
    select found.id from (
      select private.order_of_reference(written) as id
      union
      select p.order_id from public.payments as p where p.receipt = typed_receipt
      union
      select coalesce(t.order_id, p.order_id)
      from public.mpesa_transactions as t
      left join public.payments as p on p.id = t.payment_id
      where t.receipt = typed_receipt
      union
      select p.order_id
      from public.refunds as r
      join public.payments as p on p.id = r.payment_id
      where r.refund_receipt = typed_receipt
    ) as found
    where found.id is not null
  );
  words := array(
    select '%' || regexp_replace(w.word, '([\\%_])', '\\\1', 'g') || '%'
    from regexp_split_to_table(written, '\s+') as w (word)
    where w.word <> ''
    limit 8
  );
  -- A phone number in any spelling, whole or in part: its digits without the prefix.
  if char_length(written) <= 60 and written !~ '[a-z]' then
    digits := regexp_replace(regexp_replace(written, '[^0-9]', '', 'g'), '^(00)?2540?([17])|^0([17])', '\2\3');
    digits := case when char_length(digits) >= 4 then '%' || digits || '%' end;
  end if;
end
$$;

comment on function private.read_list_search(text) is
  'What a search in a staff list asks for. words: LIKE patterns, each of which must be found. digits: a LIKE pattern that may be found instead, of a phone number. order_ids: the orders whose tracking number, reference or M-PESA receipt was typed as a whole; then only these count.';

create or replace function private.is_in_drinks(pattern text) returns boolean
language sql stable
set search_path = ''
-- The embedded database gathers no statistics: without this it would scan every item for an unknown word.
set enable_seqscan = off
set jit = off
as $$
  select exists (
    select from public.order_items as i
    where translate(lower(i.product_name), 'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu') like pattern
  );
$$;

comment on function private.is_in_drinks(text) is 'Whether a LIKE pattern fits the name of any drink that was ordered.';

create or replace function private.is_in_riders(pattern text) returns boolean
language sql stable
set search_path = ''
set enable_seqscan = off
set jit = off
as $$
  select exists (
    select from public.deliveries as d
    where translate(
      lower(coalesce(d.delivery_person, '') || E'\n' || regexp_replace(coalesce(d.delivery_phone, ''), '[^0-9]', '', 'g')),
      'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu'
    ) like pattern
  );
$$;

comment on function private.is_in_riders(text) is 'Whether a LIKE pattern fits the name or the phone number of any rider.';

-- Conditions read the row's own items and rider in a scalar subquery. With EXISTS PostgreSQL used a hashed subplan and read all items
-- of the shop for the few orders of a search.
create or replace function private.list_conditions(
  list text,
  search text,
  status text,
  payment text,
  from_day date,
  until_day date,
  rider text,
  due text,
  out by_index text,
  out by_row text,
  out candidates text,
  out is_broad boolean
)
language plpgsql stable
set search_path = ''
as $$
declare
  is_orders constant boolean := list = 'orders';
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
  is_review_due constant text := $sql$(o.payment_status = 'needs_decision' or (o.payment_status = 'unpaid' and exists (
    select from public.payments as p where p.order_id = o.id and p.status = 'review')))$sql$;
  rider_name constant text := lower(trim(left(list_conditions.rider, 120)));
  asked record;
  indexed text[] := '{}';
  checked text[] := '{}';
  pattern text;
  in_order text[] := '{}';
  anywhere text[] := '{}';
begin
  asked := private.read_list_search(search);
  is_broad := true;

  if from_day is not null then
    indexed := indexed || format($sql$%s.created_at >= %L::date::timestamp at time zone 'Africa/Nairobi'$sql$, own, from_day);
  end if;
  if until_day is not null then
    indexed := indexed || format($sql$%s.created_at < (%L::date + 1)::timestamp at time zone 'Africa/Nairobi'$sql$, own, until_day);
  end if;

  if is_orders then
    indexed := indexed || case
      when status is null then null
      -- Staff choose "Shipped"; a delivery that leaves makes its order "Out For Delivery".
      when status = 'shipped' then is_open || $sql$ and o.status in ('shipped', 'out_for_delivery')$sql$
      when status in ('pending', 'processing', 'out_for_delivery') then is_open || format(' and o.status = %L', status)
      else format('o.status = %L', status)
    end;
    indexed := indexed || case payment
      when 'paid' then $sql$o.payment_status = 'paid' and o.status <> 'cancelled'$sql$
      -- A cancelled unpaid order owes nothing.
      when 'unpaid' then $sql$o.payment_status = 'unpaid' and o.status <> 'cancelled'$sql$
      when 'refunded' then $sql$o.payment_status = 'refunded'$sql$
      when 'needs_review' then null
      when 'refund_due' then null
      else case when payment is not null then 'false' end
    end;
    indexed := indexed || case due
      when 'prepare' then is_open || $sql$ and o.payment_status = 'paid' and o.status in ('pending', 'processing')$sql$
      when 'late' then is_open || $sql$ and o.payment_status = 'paid' and coalesce(
        (select d.created_at from public.deliveries as d where d.order_id = o.id), o.created_at
      ) < now() - private.delivery_promise()$sql$
      else case when due is not null then 'false' end
    end;
  else
    indexed := indexed || case when status is not null then format('d.delivery_status = %L', status) end;
    indexed := indexed || case due
      when 'late' then is_open_delivery || $sql$ and d.created_at < now() - private.delivery_promise()
        and (select o.status from public.orders as o where o.id = d.order_id) <> 'cancelled'$sql$
      else case when due is not null then 'false' end
    end;
  end if;

  -- What no index has in the order of the list, the rarest last: it is where candidates come from.
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
  if cardinality(asked.order_ids) > 0 then
    checked := checked || format('o.id = any (%L::uuid[])', asked.order_ids);
    candidates := format('select unnest(%L::uuid[]) as id', asked.order_ids);
    is_broad := false;
  elsif asked.words is not null then
    -- One text for each row, so that it is made once for however many words.
    checked := checked || format($sql$(%1$s || E'\n' || coalesce((
      select string_agg(%2$s, E'\n') from public.order_items as i where i.order_id = o.id), '')%3$s like all (%4$L::text[])%5$s)$sql$,
      order_text, item_text, case when not is_orders then format($sql$ || E'\n' || %s$sql$, rider_text) end, asked.words,
      case when asked.digits is not null then
        format(' or %s like %L', order_text, asked.digits)
        || case when is_orders then '' else format(' or %s like %L', rider_text, asked.digits) end
      end
    );
    -- Words that no drink and no rider has are in the order itself: its index looks all of them up at once, so that words which
    -- many orders have are no slower than rare ones. Parts of fewer than three letters are in no index by trigram.
    foreach pattern in array asked.words loop
      if pattern ~ '[[:alnum:]]{3}' then
        if private.is_in_drinks(pattern) or (not is_orders and private.is_in_riders(pattern)) then
          anywhere := anywhere || pattern;
        else
          in_order := in_order || pattern;
        end if;
      end if;
    end loop;
    candidates := case
      when cardinality(in_order) > 0 then format('select o.id from public.orders as o where %s',
        (select string_agg(format('%s like %L', order_text, p.pattern), ' and ') from unnest(in_order) as p (pattern))
        || case when asked.digits is not null then format(' or %s like %L', order_text, asked.digits) else '' end)
      when cardinality(anywhere) > 0 then (
        select string_agg(format('(select i.order_id as id from public.order_items as i where %s like %L', item_text, p.pattern)
          || format(' union select o.id from public.orders as o where %s like %L', order_text, p.pattern)
          || case when is_orders then '' else
            format(' union select d.order_id from public.deliveries as d where %s like %L', rider_text, p.pattern) end
          || ')', ' intersect ')
        from unnest(anywhere) as p (pattern))
      else 'select o.id from public.orders as o'
    end || case when asked.digits is not null and not is_orders then
      format(' union select d.order_id from public.deliveries as d where %s like %L', rider_text, asked.digits) else '' end;
  end if;
  if is_orders and payment = 'needs_review' then
    -- Money that came too late or in part, or that M-PESA reports in another amount.
    checked := checked || is_review_due;
    candidates := $sql$
      select o.id from public.orders as o where o.payment_status = 'needs_decision'
      union
      select p.order_id from public.payments as p where p.status = 'review'$sql$;
    is_broad := false;
  end if;
  if is_orders and payment = 'refund_due' then
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

comment on function private.list_conditions(text, text, text, text, date, date, text, text) is
  'The filters of a staff list, orders (o) or deliveries (d with their order o), as conditions in SQL. by_index: on the list''s own table, served by an index in the order of the list; by_row: all others, or null; candidates: a query for the ids of the orders they can be true of; is_broad: whether the newest rows are worth a look first.';

-- More words that customers type. Staff may have deleted some, or filled the list.
insert into public.search_synonyms (word, means)
select typed.word, typed.means
from (values
  ('0 5l', '500ml'),
  ('0 33l', '330ml'),
  ('0 75l', '750ml'),
  ('best seller', ''),
  ('bestseller', ''),
  ('popular', ''),
  ('maracuja', 'passion'),
  ('maracuya', 'passion'),
  ('ribena', 'blackcurrant'),
  ('red bull', 'energy'),
  ('redbull', 'energy'),
  ('cheapest', 'offer'),
  ('promo', 'offer'),
  ('promotion', 'offer')
) as typed (word, means)
where (select count(*) from public.search_synonyms) <= 400
on conflict do nothing;
