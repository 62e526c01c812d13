-- Ratings: what customers think of a delivery, for staff alone (docs/decisions/ratings.md).

create table public.ratings (
  order_id uuid primary key references public.orders (id) on delete cascade,
  stars smallint not null,
  words text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint "a rating has one to five stars" check (stars between 1 and 5),
  constraint "words of a rating are short" check (char_length(words) <= 300)
);
comment on table public.ratings is 'What customers think of a delivered order. One per order, changeable for a day, for staff alone.';
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
return jsonb_build_object('stars', rated.stars, 'words', rated.words);

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

create function public.rate_order(order_id uuid, access_key text, stars integer, words text default null) returns jsonb
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
  insert into public.ratings as r (order_id, stars, words) values (ordered.id, rate_order.stars, written)
  on conflict on constraint ratings_pkey do update set stars = excluded.stars, words = excluded.words, updated_at = now()
  returning * into rated;
  return private.describe_rating(rated);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  return private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
end
$$;
comment on function public.rate_order is
  'A customer rates a delivered order with one to five stars and optional words, or changes the rating within a day. Proof: the order''s access key. Answers with the rating.';

-- Execution rights
grant execute on function public.rate_order to anon, authenticated, service_role;
