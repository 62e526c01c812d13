-- Areas of delivery: their fee, their promise, and which of them need an agreement first (docs/decisions/delivery-areas.md).
-- Amounts are in cents.

create table public.delivery_areas (
  id uuid primary key default gen_random_uuid(),
  name text not null,
  spellings text[] not null default '{}',
  fee_cents integer,
  promise_from_minutes integer not null default 15,
  promise_to_minutes integer not null default 60,
  needs_agreement boolean not null default false,
  is_active boolean not null default true,
  position integer not null default 0,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint "names of areas are unique" unique (name),
  constraint "an area has a name of at most 60 characters" check (char_length(trim(name)) between 2 and 60 and name !~ '[\n\r]'),
  constraint "the fee of an area is whole shillings" check (fee_cents between 0 and 100000000 and fee_cents % 100 = 0),
  constraint "a promise is between a minute and four weeks"
    check (promise_from_minutes between 1 and 40320 and promise_to_minutes between promise_from_minutes and 40320)
);
comment on table public.delivery_areas is
  'Areas that customers choose from when ordering. Orders refer to them, so they are not deleted: an inactive one is not offered.';
comment on column public.delivery_areas.spellings is
  'Other names, streets and towns by which a typed address is recognised (domain/deliveries/delivery-area.ts).';
comment on column public.delivery_areas.fee_cents is 'Delivery fee. Null: that of the shop (store_settings.delivery_fee). Not used where it is agreed.';
comment on column public.delivery_areas.promise_to_minutes is
  'Within how many minutes after the payment an order arrives; promise_from_minutes: at the earliest. 1440 or more are shown as days.';
comment on column public.delivery_areas.needs_agreement is
  'Staff and customer agree on fee and day before an order is paid (orders.awaits_agreement).';
comment on column public.delivery_areas.position is 'Place in the list, counted from 1. Changed by sort_delivery_areas.';
comment on column public.delivery_areas.updated_at is
  'Changes with every edit. A save sends the value that it read, and changes nothing if the row has changed since.';
alter table public.delivery_areas enable row level security;
grant select on public.delivery_areas to anon, authenticated;
grant
  insert (name, spellings, fee_cents, promise_from_minutes, promise_to_minutes, needs_agreement, is_active),
  update (name, spellings, fee_cents, promise_from_minutes, promise_to_minutes, needs_agreement, is_active, updated_at)
  on public.delivery_areas to authenticated;
create policy "everyone reads active areas" on public.delivery_areas for select to anon, authenticated using (is_active);
create policy "staff read every area" on public.delivery_areas for select to authenticated using ((select public.may('panel')));
create policy "owners add areas" on public.delivery_areas for insert to authenticated with check ((select public.may('settings')));
create policy "owners edit the areas" on public.delivery_areas
  for update to authenticated using ((select public.may('settings'))) with check ((select public.may('settings')));

create function private.before_area_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  new := private.without_invisible_texts(new);
  new.name := trim(regexp_replace(new.name, '\s+', ' ', 'g'));
  new.spellings := array(
    select distinct on (lower(trim(written.spelling))) left(trim(written.spelling), 60)
    from unnest(new.spellings) as written (spelling)
    where private.visible_length(left(written.spelling, 60)) > 0
    order by lower(trim(written.spelling))
  );
  if cardinality(new.spellings) > 200 then
    perform private.refuse(400, 'spellings_too_many', 'An area has at most 200 other names');
  elsif tg_op = 'UPDATE' then
    -- A place in the list is no edit, so that it does not conflict with a staff member's edit.
    old.position := new.position;
    new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  else
    -- Each page with an order form has all of them.
    if (select count(*) from public.delivery_areas) >= 60 then
      perform private.refuse(409, 'areas_too_many', 'There are 60 areas already. Please change one of them instead');
    end if;
    if new.position = 0 then
      new.position := coalesce((select max(a.position) from public.delivery_areas as a), 0) + 1;
    end if;
  end if;
  return new;
end
$$;

create trigger delivery_areas_before_change before insert or update on public.delivery_areas
  for each row execute function private.before_area_change();

create function public.sort_delivery_areas(ids uuid[]) returns void
language plpgsql security definer set search_path = '' as $$
begin
  perform private.expect_staff('settings');
  perform from public.delivery_areas as a order by a.id for no key update;
  if (select array_agg(distinct given.id order by given.id) from unnest(ids) as given (id))
    is distinct from (select array_agg(a.id order by a.id) from public.delivery_areas as a)
  then
    perform private.refuse(409, 'areas_changed', 'An area was added in the meantime. Nothing was moved');
  end if;
  update public.delivery_areas as a set position = given.place
  from unnest(ids) with ordinality as given (id, place)
  where a.id = given.id and a.position <> given.place;
end
$$;
comment on function public.sort_delivery_areas is
  'For staff: brings the areas into the order of ids, which has each area once. Refuses (areas_changed) a list that lacks one.';

create function private.read_area(area_id uuid) returns public.delivery_areas
language plpgsql stable set search_path = '' as $$
declare
  area public.delivery_areas;
begin
  select * into area from public.delivery_areas as a where a.id = read_area.area_id and a.is_active;
  if area.id is null and read_area.area_id is not null then
    perform private.refuse(409, 'area_unavailable', 'We do not deliver to this area any more. Please choose another one');
  end if;
  return area;
end
$$;
comment on function private.read_area is 'The active area with this id; a row of nulls without an id. Refuses any other (area_unavailable).';

create function private.delivery_fee_in(area public.delivery_areas, shop_fee integer, is_collected boolean) returns integer
language sql immutable
return case
  when is_collected or coalesce(area.needs_agreement, false) then 0
  else coalesce(area.fee_cents, shop_fee)
end;
comment on function private.delivery_fee_in is
  'The one rule of the delivery fee, in cents: that of the area, or of the shop. 0 if the customer collects the order, and until a fee is agreed on.';

create function private.read_map_point(written text) returns text
language plpgsql immutable set search_path = '' as $$
declare
  parts text[];
begin
  if written is null or trim(left(written, 60)) = '' then
    return null;
  end if;
  parts := regexp_match(left(written, 60), '^\s*(-?\d{1,2}(?:\.\d+)?)\s*,\s*(-?\d{1,3}(?:\.\d+)?)\s*$');
  if parts is null or abs(parts[1]::numeric) > 90 or abs(parts[2]::numeric) > 180 then
    perform private.refuse(400, 'map_point_invalid', 'A point on the map is a latitude and a longitude, such as -1.29207,36.82195');
  end if;
  -- Five digits are about a metre.
  return round(parts[1]::numeric, 5) || ',' || round(parts[2]::numeric, 5);
end
$$;
comment on function private.read_map_point is 'A latitude and longitude in degrees, rounded to five digits; null for none. Refuses anything else.';

-- Execution rights
grant execute on function public.sort_delivery_areas to authenticated, service_role;
