create or replace function private.shown_ratings() returns setof public.ratings
language sql stable set search_path = '' as $$
  select r.* from public.ratings as r where r.quoted_at is not null order by r.quoted_at desc limit 6;
$$;

comment on function private.shown_ratings is 'The ratings whose words the home page shows: the six that staff chose last.';

create or replace function public.customer_quotes() returns setof public.customer_quote
language sql stable security definer set search_path = '' as $$
  select r.words, split_part(o.customer_name, ' ', 1), coalesce(nullif(o.area_name, ''), o.city)
  from private.shown_ratings() as r join public.orders as o on o.id = r.order_id
  order by r.quoted_at desc;
$$;

comment on function public.customer_quotes is 'The words that staff chose for the storefront, at most six, those chosen last first.';

create or replace function public.is_on_home_page(rating public.ratings) returns boolean
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('settings');
  return rating.order_id in (select shown.order_id from private.shown_ratings() as shown);
end
$$;

comment on function public.is_on_home_page is 'Computed column for staff: whether the home page shows the words of this rating.';

-- Execution rights
grant execute on function public.rate_order, public.customer_quotes to anon, authenticated, service_role;

grant execute on function public.quote_rating, public.is_on_home_page to authenticated, service_role;
