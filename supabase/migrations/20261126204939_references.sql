drop function private.open_order(text,text,text);

create or replace function public.track_order(tracking_number text, access_key text default null, phone_last_four text default null)
returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  opened record;
begin
  select * into opened
  from private.open_order(track_order.tracking_number, track_order.access_key, track_order.phone_last_four);
  if opened.refusal is not null then
    return opened.refusal;
  end if;
  if (opened.found_order).id is null then
    return null;
  end if;
  if opened.is_by_order_number and not opened.is_open then
    return private.describe_by_order_number(opened.found_order);
  end if;
  return private.describe_order(opened.found_order, opened.is_open);
end
$$;

comment on function public.track_order is
  'An order by a text with its tracking number: status, items and total, and after 30 days only the status. Proof (the access key, the last four digits of the phone, or the whole number) adds id, access key and personal data, reserved_until, expires_at, paid_cents and part_paid_cents. live_handle: name of the live channel. payment_check of an unpaid order: review (staff check a payment), goes_back (its money is being refunded), prompted (a prompt is open), unresolved (M-PESA gave no result). is_refunding: a refund of the paid order is in progress. cancelled_because: not_paid_in_time or by_shop. By its order number (ORD-...), which can be guessed, without proof: only status, order_number and needs_digits. Null: no such order, or several.';

create or replace function public.order_receipt(tracking_number text, access_key text default null, phone_last_four text default null)
returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  opened record;
  receipt_of public.orders;
begin
  select * into opened
  from private.open_order(order_receipt.tracking_number, order_receipt.access_key, order_receipt.phone_last_four);
  receipt_of := opened.found_order;
  if opened.refusal is not null then
    return opened.refusal;
  end if;
  if receipt_of.id is null then
    return null;
  end if;
  if opened.is_by_order_number and not opened.is_open then
    return private.describe_by_order_number(receipt_of);
  elsif not opened.is_open then
    return jsonb_build_object('tracking_number', receipt_of.tracking_number, 'is_masked', true);
  end if;
  return private.describe_order(receipt_of, true) - 'delivery_notes' || jsonb_build_object(
    'order_number', receipt_of.order_number,
    'order_items', coalesce((
      select jsonb_agg(
        jsonb_build_object('id', i.id, 'name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
        order by i.created_at, i.id
      )
      from public.order_items as i where i.order_id = receipt_of.id
    ), '[]'::jsonb),
    'payments', coalesce((
      select jsonb_agg(
        jsonb_build_object(
          'id', p.id, 'charge_cents', p.charge_cents, 'receipt', p.receipt, 'completed_at', p.completed_at,
          'is_surplus', p.needs_refund, 'refunded_at', p.refunded_at, 'refund_receipt', p.refund_receipt
        )
        order by p.completed_at, p.id
      )
      from public.payments as p where p.order_id = receipt_of.id and p.status = 'completed'
    ), '[]'::jsonb)
  );
end
$$;

comment on function public.order_receipt is
  'With proof: what track_order shows, and every completed payment. Without proof: only that the order exists. Null: no such order.';

create or replace function private.open_order(
  tracking_number text, access_key text, phone_digits text, out found_order public.orders, out is_open boolean,
  out is_by_order_number boolean, out refusal jsonb
)
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  numbers text[] := private.order_numbers_in(open_order.tracking_number);
  wanted text := coalesce(upper(trim(left(open_order.tracking_number, 40))), '');
  digits text := nullif(trim(left(open_order.phone_digits, 40)), '');
  needs_whole_phone boolean;
  networks text[];
begin
  select * into found_order from public.orders as o where o.id = private.order_of_reference(open_order.tracking_number);
  is_by_order_number := found and found_order.tracking_number <> all (numbers);
  -- Each spelling of a number counts for the same limits.
  wanted := coalesce(found_order.tracking_number, numbers[1], wanted);
  is_open := exists (
    select from private.order_keys as k
    where k.order_id = found_order.id and k.access_key = left(open_order.access_key, 64)
  );
  if is_open then
    return;
  end if;

  if digits is not null then
    -- Guesses are serialised, so that each is counted before the next is compared. Unknown numbers take the same path, so that the
    -- response does not distinguish them.
    perform pg_advisory_xact_lock(hashtext('order_digits ' || wanted));
    -- The widest network contains the others. Always after the order, so that two guesses never wait for each other.
    networks := private.caller_networks();
    perform pg_advisory_xact_lock(hashtext('digits ' || networks[cardinality(networks)]));
    if not private.is_within_limit('order_digits', wanted) then
      refusal := private.refusal_answer('PT429', 'Too many wrong digits for this order. Please try again in an hour',
        'too_many_guesses', '');
      return;
    end if;
    if not private.is_within_limit('digits') then
      refusal := private.refusal_answer('PT429', 'Too many wrong digits from your network. Please try again in an hour',
        'too_many_guesses', '');
      return;
    end if;
    -- Many networks together could try all 10,000 endings. After 200 misses only the whole number opens the order.
    needs_whole_phone := private.hits_so_far('order_digits_of_all', wanted, interval '30 days') >= 200;
    is_open := coalesce(
      private.normalised_phone(digits) = found_order.customer_phone
        or (right(found_order.customer_phone, 4) = digits and not needs_whole_phone),
      false
    );
    if is_open then
      return;
    end if;
    perform private.count_call('order_digits', wanted);
    perform private.count_call('digits');
    if found_order.id is not null then
      perform private.count_hit('order_digits_of_all', wanted, interval '30 days');
    end if;
    if needs_whole_phone then
      refusal := private.refusal_answer('PT429', 'Too many wrong digits for this order. Please enter the whole phone number',
        'too_many_guesses', '');
      return;
    end if;
  end if;

  if not private.count_order_lookup(wanted) then
    refusal := private.refusal_answer('PT429', 'Too many look-ups. Please try again in a few minutes', 'too_many_lookups', '');
  end if;
end
$$;

comment on function private.open_order is
  'Finds an order and checks the proof: its access key, the last four digits of its phone, or the whole number. is_open: the proof is valid; that is not counted. is_by_order_number: only its order number was given. refusal: the response when the caller is over a limit.';

create or replace function private.describe_by_order_number(described public.orders) returns jsonb
language sql stable set search_path = '' as $$
  select jsonb_build_object(
    'order_number', described.order_number, 'status', private.shown_status(described.status), 'is_masked', true, 'needs_digits', true
  );
$$;

comment on function private.describe_by_order_number is
  'The order as a caller may see it who gave only its order number. Order numbers are consecutive, so neither payment nor tracking number is shown.';

-- Execution rights
grant execute on function public.track_order, public.order_receipt, public.orders_by_access_key
  to anon, authenticated, service_role;

create or replace function private.order_numbers_in(written text) returns text[]
language sql immutable set search_path = '' as $$
  -- The patterns of domain/tracking-number.ts.
  with spelled as (
    select translate(
      regexp_replace(left(order_numbers_in.written, 300), '[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]', '', 'g'),
      'abcdefghijklmnopqrstuvwxyz', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'
    ) as text
  ),
  found as (
    select 1 as kind, m.place, m.parts
    from spelled as s
    cross join regexp_matches(s.text,
      'J[^A-Z0-9]?J[^A-Z0-9]{0,3}((?:2[0O])?[2-9][0-9OIL])[^A-Z0-9]?([0O][1-9IL]|[1IL][0-2OIL])[^A-Z0-9]?([0O][1-9IL]|[12IL][0-9OIL]|3[01OIL])[^A-Z0-9]{0,3}([0-9OIL]{4,6}(?![A-Z0-9])|[0-9]{4,6}(?=[A-Z]))',
      'g') with ordinality as m (parts, place)
    union all
    select 2, m.place, m.parts
    from spelled as s
    cross join regexp_matches(s.text,
      '(?:^|[^A-Z0-9])((?:2[0O])?[2-9][0-9OIL])[^A-Z0-9]?([0O][1-9IL]|[1IL][0-2OIL])[^A-Z0-9]?([0O][1-9IL]|[12IL][0-9OIL]|3[01OIL])[^A-Z0-9]{0,3}([0-9OIL]{4,6})(?![A-Z0-9])',
      'g') with ordinality as m (parts, place)
    union all
    select 3, m.place, m.parts
    from spelled as s
    cross join regexp_matches(s.text,
      '(?:^|[^A-Z0-9])[0O]RD(?:ER)?[^A-Z0-9]{0,3}(?:N(?:O|R|UMBER)[^A-Z0-9]{0,3})?(?=[OIL]{0,8}[0-9])([1-9IL][0-9OIL]{3,8}(?![A-Z0-9]|[.,][0-9]|/[=-])|[1-9][0-9]{3,8}(?=[A-Z])(?!KES|KSH|SH|BOB|ML))',
      'g') with ordinality as m (parts, place)
  ),
  numbers as (
    select f.kind, f.place, translate(
      case
        when f.kind = 3 then '#' || f.parts[1]
        else 'JJ-' || case when char_length(f.parts[1]) = 2 then '20' else '' end || f.parts[1] || f.parts[2] || f.parts[3] || '-' || f.parts[4]
      end, 'OIL', '011') as number
    from found as f
  )
  select coalesce(array_agg(replace(n.number, '#', 'ORD-') order by n.kind, n.place), '{}')
  from (select distinct on (k.number) k.number, k.kind, k.place from numbers as k order by k.number, k.kind, k.place) as n;
$$;

comment on function private.order_numbers_in is
  'The tracking numbers and order numbers that a short text names, as they are stored, the tracking numbers first. The same as readOrderNumbers in domain/tracking-number.ts.';

create or replace function private.orders_named(numbers text[]) returns setof uuid
language sql stable set search_path = '' as $$
  select o.id from public.orders as o where o.tracking_number = any (orders_named.numbers)
  union
  select o.id from public.orders as o where o.order_number = any (orders_named.numbers);
$$;

comment on function private.orders_named is 'The orders with these tracking numbers or order numbers.';

create or replace function private.order_of_reference(reference text) returns uuid
language sql stable set search_path = '' as $$
  -- If the text names several orders, staff decide.
  select case when count(*) = 1 then min(named.id::text)::uuid end
  from private.orders_named(private.order_numbers_in(order_of_reference.reference)) as named (id);
$$;

comment on function private.order_of_reference is
  'The order that a payer''s reference names, by its tracking number or its order number in any spelling. Null for none or several.';

create or replace function private.read_list_search(search text, out words text[], out digits text, out order_ids uuid[])
language plpgsql stable set search_path = '' as $$
declare
  written text := trim(left(translate(lower(search), 'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ''’ʼ', 'aaaaaaceeeeiiiiinooooouuuuu'), 200));
  typed_receipt text := upper(regexp_replace(written, '\s', '', 'g'));
begin
  -- ord1040, ORD 1040 and #1040 are ORD-1040.
  written := regexp_replace(regexp_replace(written, '\mord[\s.:#-]*(?=\d)', 'ord-', 'g'), '#(?=\d)', '', 'g');
  if coalesce(written, '') = '' then
    return;
  end if;
  order_ids := array(
    select found.id from (
      select named.id from private.orders_named(private.order_numbers_in(written)) as named (id)
      union
      select p.order_id from public.payments as p where p.receipt = typed_receipt
      union
      select coalesce(t.order_id, p.order_id)
      from public.mpesa_transactions as t
      -- The receipt of another amount belongs to the attempt alone while it needs review.
      left join public.payments as p on p.id = coalesce(t.payment_id, t.attempt_id)
      where t.receipt = typed_receipt
      union
      select p.order_id
      from public.refunds as r
      join public.payments as p on p.id = r.payment_id
      where r.refund_receipt = typed_receipt
    ) as found
    where found.id is not null
  );
  -- ginger-lemon is ginger lemon.
  written := regexp_replace(written, '(?<=[a-z])-(?=[a-z])', ' ', 'g');
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

comment on function private.read_list_search is
  'Parses a search in a staff list. words: LIKE patterns that must all match. digits: a LIKE pattern of a phone number that may match instead. order_ids: orders whose tracking number, order number or M-PESA receipt was typed completely; then only these match.';
