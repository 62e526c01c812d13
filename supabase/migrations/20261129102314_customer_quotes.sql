-- Earlier versions of the program keep working: rate_order can be called without may_quote.

alter table public.ratings
  add column may_quote boolean not null default false,
  add column quoted_at timestamptz;

create type public.customer_quote as (words text, first_name text, area text);

comment on type public.customer_quote is 'Words of a customer as visitors read them. area: the area of the delivery, or its town.';

drop function public.rate_order(uuid,text,integer,text);

revoke all on public.ratings from anon, authenticated;

alter table public.ratings add constraint "nothing is quoted without consent" CHECK (((quoted_at IS NULL) OR may_quote));

alter table public.ratings add constraint "only words with consent are quoted" CHECK (((NOT may_quote) OR (words IS NOT NULL)));

comment on table public.ratings is
  'What customers think of a delivered order. One per order, changeable for a day. For staff, except words that customer_quotes shows.';

comment on column public.ratings.may_quote is 'Whether the customer agreed that the words are shown to visitors.';

comment on column public.ratings.quoted_at is 'When staff chose the words for the storefront. Null: they are not shown.';

-- The list of words that staff choose from, and the chosen ones.
create index ratings_that_may_be_quoted on public.ratings (created_at desc, order_id desc) where may_quote;

create index quoted_ratings on public.ratings (quoted_at desc) where quoted_at is not null;

comment on column public.ratings.words is 'Null: none, or erased with the other details of the order.';

alter table public.ratings enable row level security;

grant select on public.ratings to authenticated;

-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (order_id) on public.ratings to anon;

create or replace function private.describe_rating(rated public.ratings) returns jsonb
language sql stable
return jsonb_build_object('stars', rated.stars, 'words', rated.words, 'may_quote', rated.may_quote);

create or replace function public.rate_order(
  order_id uuid, access_key text, stars integer, words text default null, may_quote boolean default false
) returns jsonb
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  written text;
  ordered public.orders;
  rated public.ratings;
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := private.count_call('ratings');
  refusal_details text;
  refusal_hint text;
begin
  if not is_within_limit then
    perform private.refuse(429, 'too_many_ratings', format(
      'Too many ratings from your network. Please try again in %s', private.time_left('ratings')
    ));
  elsif rate_order.stars is null or rate_order.stars not between 1 and 5 then
    perform private.refuse(400, 'rating_invalid', 'A rating has one to five stars');
  elsif octet_length(rate_order.words) > 4000 then
    perform private.refuse(400, 'rating_too_long', 'The words are longer than 300 characters');
  end if;
  -- Line feeds stay; other control characters become spaces.
  written := private.visible_text(regexp_replace(rate_order.words, '[\u0001-\u0009\u000b-\u001f\u007f-\u009f]', ' ', 'g'));
  if char_length(written) > 300 then
    perform private.refuse(400, 'rating_too_long', 'The words are longer than 300 characters');
  end if;
  -- Serialises this with an erasure of the order.
  select o.* into ordered
  from public.orders as o
  where o.id = rate_order.order_id and exists (
    select from private.order_keys as k where k.order_id = o.id and k.access_key = left(rate_order.access_key, 64)
  )
  for share;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif not private.may_rate(ordered) then
    perform private.refuse(409, 'rating_closed', 'This order cannot be rated now');
  end if;
  insert into public.ratings as r (order_id, stars, words, may_quote)
  values (ordered.id, rate_order.stars, written, written is not null and coalesce(rate_order.may_quote, false))
  on conflict on constraint ratings_pkey do update
  set stars = excluded.stars, words = excluded.words, may_quote = excluded.may_quote, updated_at = now(),
    -- Staff chose what they read.
    quoted_at = case when excluded.may_quote and (excluded.stars, excluded.words) = (r.stars, r.words) then r.quoted_at end
  returning * into rated;
  return private.describe_rating(rated);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  return private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
end
$$;

comment on function public.rate_order is
  'A customer rates a delivered order with one to five stars and optional words, or changes the rating within a day. may_quote: the words may be shown to visitors. Proof: the order''s access key. Answers with the rating.';

create or replace function public.customer_quotes() returns setof public.customer_quote
language sql stable security definer set search_path = '' as $$
  select r.words, split_part(o.customer_name, ' ', 1), coalesce(nullif(o.area_name, ''), o.city)
  from public.ratings as r join public.orders as o on o.id = r.order_id
  where r.quoted_at is not null
  order by r.quoted_at desc
  limit 6;
$$;

comment on function public.customer_quotes is 'The words that staff chose for the storefront, at most six, those chosen last first.';

create or replace function public.quote_rating(order_id uuid, is_quoted boolean, seen_updated_at timestamptz) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('settings');
  update public.ratings as r
  set quoted_at = case when quote_rating.is_quoted then coalesce(r.quoted_at, now()) end
  where r.order_id = quote_rating.order_id and r.updated_at = quote_rating.seen_updated_at
    and (r.may_quote or not quote_rating.is_quoted);
  if not found then
    perform private.refuse(409, 'rating_changed', 'The customer has changed this in the meantime. Nothing was changed');
  end if;
end
$$;

comment on function public.quote_rating is
  'For staff: shows the words of a rating on the storefront, or no longer, if they still are as the caller read them (seen_updated_at) and the customer agrees.';

-- Execution rights
grant execute on function public.rate_order, public.customer_quotes to anon, authenticated, service_role;

grant execute on function public.quote_rating to authenticated, service_role;

create or replace function private.anonymise_orders(order_ids uuid[]) returns void
language plpgsql set search_path = '' as $$
begin
  update public.orders as o
  set customer_name = 'Anonymised', customer_email = '', customer_phone = '', shipping_address = '', delivery_notes = null,
      map_point = null, cancel_answer = case when o.cancel_declined_at is not null then '' end, anonymised_at = now()
  where o.id = any (anonymise_orders.order_ids);
  -- Links in old messages stop working.
  update private.order_keys as k
  set request_hash = '', access_key = replace(gen_random_uuid()::text, '-', '')
  where k.order_id = any (anonymise_orders.order_ids);
  delete from private.order_networks as n where n.order_id = any (anonymise_orders.order_ids);
  update public.payments as p set phone = '' where p.order_id = any (anonymise_orders.order_ids) and p.phone <> '';
  update public.deliveries as d
  set delivery_notes = null
  where d.order_id = any (anonymise_orders.order_ids) and d.delivery_notes is not null;
  update public.ratings as r set words = null, may_quote = false, quoted_at = null
  where r.order_id = any (anonymise_orders.order_ids) and r.words is not null;
  update public.order_events as e
  set details = e.details - 'phone'
  where e.order_id = any (anonymise_orders.order_ids) and e.kind like 'payment\_%' and e.details ? 'phone';
  perform private.anonymise_messages(array(
    select m.id from public.outbox_messages as m where m.order_id = any (anonymise_orders.order_ids) and m.recipient <> ''
  ));
end
$$;

comment on function private.anonymise_orders is
  'Removes the customer''s name, email, phone, address, point on the map and notes from orders and related rows. M-PESA''s messages stay for store_settings.payment_messages_months. The caller has locked the orders.';

create or replace function private.after_quote_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if coalesce(old.quoted_at, new.quoted_at) is not null and (old.quoted_at, old.words) is distinct from (new.quoted_at, new.words) then
    perform pg_catalog.pg_notify('page_changes', '{"table": "ratings"}');
  end if;
  return null;
end
$$;

create trigger ratings_after_change after update or delete on public.ratings
  for each row execute function private.after_quote_change();

create trigger ratings_by_staff before insert or update or delete on public.ratings for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();
