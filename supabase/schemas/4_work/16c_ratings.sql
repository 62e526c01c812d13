-- Ratings: what customers think of a delivery, for staff. With the customer's consent, staff show the words on the storefront
-- (docs/decisions/ratings.md).

create table public.ratings (
  order_id uuid primary key references public.orders (id) on delete cascade,
  stars smallint not null,
  words text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  may_quote boolean not null default false,
  quoted_at timestamptz,
  constraint "a rating has one to five stars" check (stars between 1 and 5),
  constraint "words of a rating are short" check (char_length(words) <= 300),
  constraint "only words with consent are quoted" check (not may_quote or words is not null),
  constraint "nothing is quoted without consent" check (quoted_at is null or may_quote)
);
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
create policy "staff read every rating, the counter those of recent orders" on public.ratings
  for select to authenticated using ((select public.may('orders')) or ((select public.may('deliveries')) and public.is_recent_order(order_id)));

alter publication supabase_realtime add table public.ratings;

create function private.may_rate(ordered public.orders) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return ordered.status = 'delivered'
    and coalesce(
      (select d.delivery_time from public.deliveries as d where d.order_id = ordered.id), ordered.updated_at
    ) > now() - interval '30 days'
    and not exists (select from public.ratings as r where r.order_id = ordered.id and r.created_at <= now() - interval '1 day');
end
$$;
comment on function private.may_rate is
  'Whether the customer can rate an order, or change the rating: within 30 days of the delivery, and a day after the first rating.';

create function private.describe_rating(rated public.ratings) returns jsonb
language sql stable
return jsonb_build_object('stars', rated.stars, 'words', rated.words, 'may_quote', rated.may_quote);

create function private.describe_rider(delivery public.deliveries) returns jsonb
language plpgsql stable set search_path = '' as $$
begin
  return jsonb_build_object(
    'first_name', split_part(delivery.delivery_person, ' ', 1),
    'plate', coalesce(
      (select nullif(r.plate, '') from public.riders as r where r.id = delivery.rider_id), delivery.delivery_vehicle
    ),
    'phone', private.normalised_phone(delivery.delivery_phone)
  );
end
$$;
comment on function private.describe_rider is
  'What the customer sees of the rider who is on the way: first name, plate (or the vehicle, where no plate is known) and phone. phone null: staff typed no Kenyan number.';

create function public.rate_order(
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

-- Words of customers on the storefront

create type public.customer_quote as (words text, first_name text, area text);
comment on type public.customer_quote is 'Words of a customer as visitors read them. area: the area of the delivery, or its town.';

create function private.shown_ratings() returns setof public.ratings
language sql stable set search_path = '' as $$
  select r.* from public.ratings as r where r.quoted_at is not null order by r.quoted_at desc limit 6;
$$;
comment on function private.shown_ratings is 'The ratings whose words the home page shows: the six that staff chose last.';

create function public.customer_quotes() returns setof public.customer_quote
language sql stable security definer set search_path = '' as $$
  select r.words, split_part(o.customer_name, ' ', 1), coalesce(nullif(o.area_name, ''), o.city)
  from private.shown_ratings() as r join public.orders as o on o.id = r.order_id
  order by r.quoted_at desc;
$$;
comment on function public.customer_quotes is 'The words that staff chose for the storefront, at most six, those chosen last first.';

create function public.is_on_home_page(rating public.ratings) returns boolean
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('settings');
  return rating.order_id in (select shown.order_id from private.shown_ratings() as shown);
end
$$;
comment on function public.is_on_home_page is 'Computed column for staff: whether the home page shows the words of this rating.';

create function public.quote_rating(order_id uuid, is_quoted boolean, seen_updated_at timestamptz) returns void
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
grant execute on function public.quote_rating, public.is_on_home_page to authenticated, service_role;
