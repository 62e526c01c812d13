-- Riders, and the links with which they open their page (docs/decisions/riders.md).

create table public.riders (
  id uuid primary key default gen_random_uuid(),
  name text not null,
  phone text not null,
  vehicle text not null,
  plate text not null default '',
  is_active boolean not null default true,
  is_practice boolean not null default false,
  last_seen_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint "a phone belongs to one rider" unique (phone),
  constraint "a rider has a Kenyan mobile number" check (phone ~ '^\+254[17]\d{8}$'),
  constraint "details of a rider are short"
    check (char_length(name) between 1 and 80 and char_length(vehicle) between 1 and 80 and char_length(plate) <= 20)
);
comment on table public.riders is
  'The riders of the shop. A delivery whose phone is that of an active rider is theirs (deliveries.rider_id).';
comment on column public.riders.is_active is 'Inactive: not offered for assignments, gets no new deliveries, and has no link.';
comment on column public.riders.is_practice is 'The rider of a shop with the M-PESA simulator. Deleted when the shop starts without it.';
comment on column public.riders.last_seen_at is 'When the rider last pressed or touched something on the page. Opening the link does not count.';
comment on column public.riders.updated_at is 'Changes with every edit of staff. A save sends the value that it read, and is refused if the row has changed since.';
alter table public.riders enable row level security;
grant select on public.riders to authenticated;
create policy "staff read the riders" on public.riders for select to authenticated using ((select public.may('deliveries')));

create table public.rider_links (
  id uuid primary key default gen_random_uuid(),
  rider_id uuid not null references public.riders (id) on delete cascade,
  secret_hash text not null,
  created_at timestamptz not null default now(),
  created_by_email text,
  expires_at timestamptz not null,
  revoked_at timestamptz,
  constraint "secrets of riders are unique" unique (secret_hash),
  constraint "a secret is stored as SHA-256 in hexadecimal" check (secret_hash ~ '^[0-9a-f]{64}$')
);
comment on table public.rider_links is 'Links to the page of a rider (/ride/{secret}). One is valid per rider: a new one revokes the others.';
comment on column public.rider_links.expires_at is 'The end of the shift.';
comment on column public.rider_links.revoked_at is 'When staff ended it, or opened another one. Null: not revoked.';
alter table public.rider_links enable row level security;
grant select (id, rider_id, created_at, created_by_email, expires_at, revoked_at) on public.rider_links to authenticated;
create policy "staff read the links of riders" on public.rider_links for select to authenticated using ((select public.may('deliveries')));
create index rider_links_by_rider on public.rider_links (rider_id, created_at desc);
create index rider_links_by_end on public.rider_links (expires_at);

create table private.rider_presses (
  press_key uuid primary key,
  link_id uuid not null references public.rider_links (id) on delete cascade,
  delivery_id uuid not null,
  request_hash text not null,
  outcome jsonb,
  pressed_at timestamptz not null default now()
);
comment on table private.rider_presses is
  'What riders pressed, by the idempotency key of the press, with what was sent and its outcome. Deleted with the link, 30 days after its end.';
alter table private.rider_presses enable row level security;
create index rider_presses_by_link on private.rider_presses (link_id);

create function private.shift_length() returns interval
language sql immutable
return interval '16 hours';
comment on function private.shift_length is 'How long a link of a rider is valid.';

create function private.rider_of_phone(phone text) returns uuid
language plpgsql stable set search_path = '' as $$
begin
  return (
    select r.id from public.riders as r where r.phone = private.normalised_phone(rider_of_phone.phone) and r.is_active
  );
end
$$;
comment on function private.rider_of_phone is 'The active rider with a phone, in any spelling. Null: none.';

create function private.hash_rider_secret(secret text) returns text
language sql immutable
return encode(sha256(convert_to(secret, 'UTF8')), 'hex');

create function private.find_rider_link(secret text) returns public.rider_links
language plpgsql stable set search_path = '' as $$
declare
  found_link public.rider_links;
begin
  if find_rider_link.secret is null or octet_length(find_rider_link.secret) > 64 then
    return null;
  end if;
  select l.* into found_link
  from public.rider_links as l
  join public.riders as r on r.id = l.rider_id and r.is_active
  where l.secret_hash = private.hash_rider_secret(find_rider_link.secret) and l.revoked_at is null and l.expires_at > now();
  return found_link;
end
$$;
comment on function private.find_rider_link is 'The valid link with a secret. Null: it never was one, ended, was revoked, or its rider is inactive.';

create function private.create_rider_link(rider_id uuid, created_by_email text) returns text
language plpgsql set search_path = '' as $$
declare
  -- 144 random bits, as 24 characters of a URL.
  secret constant text := translate(encode(substr(
    sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')), 1, 18
  ), 'base64'), '+/', '-_');
begin
  -- Their presses go with them.
  delete from public.rider_links as l where l.expires_at < now() - interval '30 days';
  insert into public.rider_links (rider_id, secret_hash, created_by_email, expires_at)
  values (
    create_rider_link.rider_id, private.hash_rider_secret(secret), create_rider_link.created_by_email, now() + private.shift_length()
  );
  return secret;
end
$$;
comment on function private.create_rider_link is 'Stores a new link and returns its secret, which cannot be read again.';

create function public.list_riders() returns table (
  id uuid, name text, phone text, vehicle text, plate text, is_active boolean, last_seen_at timestamptz, updated_at timestamptz,
  open_deliveries integer, link_expires_at timestamptz
)
language plpgsql stable security definer rows 20 set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.expect_staff('deliveries');
  return query
    select r.id, r.name, r.phone, r.vehicle, r.plate, r.is_active, r.last_seen_at, r.updated_at,
      (select count(*)::integer from public.deliveries as d where d.rider_id = r.id and private.is_open_delivery(d.delivery_status)),
      (
        select max(l.expires_at) from public.rider_links as l
        where l.rider_id = r.id and l.revoked_at is null and l.expires_at > now()
      )
    from public.riders as r
    order by r.is_active desc, lower(r.name), r.id
    limit 500;
end
$$;
comment on function public.list_riders is
  'For staff: the riders, active ones first, with the number of their open deliveries and the end of their valid link.';

create function public.save_rider(
  name text, phone text, vehicle text, plate text default '', is_active boolean default true,
  rider_id uuid default null, seen_updated_at timestamptz default null
) returns public.riders
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  rider_name text := private.visible_text(save_rider.name);
  number text := private.normalised_phone(save_rider.phone);
  rider_vehicle text := private.visible_text(save_rider.vehicle);
  rider_plate text := coalesce(private.visible_text(save_rider.plate), '');
  saved public.riders;
begin
  perform private.expect_staff('deliveries');
  if rider_name is null then
    perform private.refuse(400, 'rider_name_missing', 'A rider needs a name');
  elsif number is null then
    perform private.refuse(400, 'rider_phone_invalid', 'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)');
  elsif rider_vehicle is null then
    perform private.refuse(400, 'rider_vehicle_missing', 'A rider needs a vehicle');
  elsif char_length(rider_name) > 80 or char_length(rider_vehicle) > 80 or char_length(rider_plate) > 20
    or private.has_control_characters(rider_name || rider_vehicle || rider_plate)
  then
    perform private.refuse(400, 'rider_too_long', 'Name and vehicle have at most 80 characters, a plate 20, each in one line');
  elsif exists (select from public.riders as r where r.phone = number and r.id is distinct from save_rider.rider_id) then
    perform private.refuse(409, 'rider_phone_taken', 'Another rider has this phone number');
  end if;
  if save_rider.rider_id is null then
    insert into public.riders (name, phone, vehicle, plate, is_active)
    values (rider_name, number, rider_vehicle, rider_plate, coalesce(save_rider.is_active, true))
    returning * into saved;
  else
    update public.riders as r
    set name = rider_name, phone = number, vehicle = rider_vehicle, plate = rider_plate,
        is_active = coalesce(save_rider.is_active, true),
        updated_at = greatest(clock_timestamp(), r.updated_at + interval '1 microsecond')
    where r.id = save_rider.rider_id and r.updated_at is not distinct from save_rider.seen_updated_at
    returning * into saved;
    if not found then
      if exists (select from public.riders as r where r.id = save_rider.rider_id) then
        perform private.refuse(409, 'rider_changed', 'This rider was changed in the meantime. Nothing was saved');
      end if;
      perform private.refuse(404, 'rider_not_found', 'This rider does not exist');
    end if;
  end if;
  if saved.is_active then
    -- Those whose rider was typed before the rider was on the list.
    update public.deliveries as d set rider_id = saved.id
    where private.is_open_delivery(d.delivery_status) and d.rider_id is null
      and d.delivery_phone is not null and private.normalised_phone(d.delivery_phone) = saved.phone;
  else
    update public.rider_links as l set revoked_at = now() where l.rider_id = saved.id and l.revoked_at is null and l.expires_at > now();
  end if;
  return saved;
end
$$;
comment on function public.save_rider is
  'For staff: adds a rider, or changes the one with rider_id if it still is as the caller read it (seen_updated_at). An inactive one loses the link.';

create type public.rider_link as (secret text, expires_at timestamptz);
comment on type public.rider_link is 'The secret of a new link. It is shown once: only its hash is stored.';

create function public.open_rider_link(rider_id uuid) returns public.rider_link
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  rider public.riders;
begin
  perform private.expect_staff('deliveries');
  -- Two members who open one at once come one after the other.
  select * into rider from public.riders as r where r.id = open_rider_link.rider_id for no key update;
  if not found then
    perform private.refuse(404, 'rider_not_found', 'This rider does not exist');
  elsif not rider.is_active then
    perform private.refuse(409, 'rider_inactive', 'This rider is not active. Activate the rider first');
  end if;
  update public.rider_links as l set revoked_at = now() where l.rider_id = rider.id and l.revoked_at is null;
  return (
    private.create_rider_link(rider.id, private.email_of((select auth.uid()))), now() + private.shift_length()
  )::public.rider_link;
end
$$;
comment on function public.open_rider_link is
  'For staff: a new link to the page of a rider, valid for one shift. Links that the rider had before end.';

create function public.revoke_rider_link(rider_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
begin
  perform private.expect_staff('deliveries');
  update public.rider_links as l set revoked_at = now()
  where l.rider_id = revoke_rider_link.rider_id and l.revoked_at is null and l.expires_at > now();
end
$$;
comment on function public.revoke_rider_link is 'For staff: ends the link of a rider at once. Repeating it changes nothing.';

create function public.practice_rider(is_practice boolean) returns text
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  rider uuid;
begin
  if not practice_rider.is_practice then
    delete from public.riders as r where r.is_practice;
    return null;
  end if;
  -- Safaricom assigns no number that begins with +254100000.
  insert into public.riders (name, phone, vehicle, plate, is_practice)
  values ('Practice rider', '+254100000000', 'Motorbike', 'KMPR 001A', true)
  on conflict (phone) do update set is_active = true
  returning id into rider;
  -- Several processes of the shop have a link each.
  return private.create_rider_link(rider, null);
end
$$;
comment on function public.practice_rider is
  'For the shop itself, at its start: with the M-PESA simulator the secret of a link of the practice rider, else it deletes that rider.';

create function private.draw_proof_code() returns text
language sql volatile set search_path = '' as $$
  -- random() can be predicted from earlier values.
  select lpad((('x' || left(replace(gen_random_uuid()::text, '-', ''), 8))::bit(32)::bigint % 10000)::text, 4, '0');
$$;
comment on function private.draw_proof_code is 'Four random digits.';

-- Execution rights
grant execute on function public.list_riders, public.save_rider, public.open_rider_link, public.revoke_rider_link to authenticated, service_role;
grant execute on function public.practice_rider to service_role;
