-- Customers by their phone: list, page, notes of staff, and blocked phones (docs/decisions/customers.md).

create table public.customer_notes (
  phone text primary key,
  notes text not null,
  noted_by uuid,
  noted_by_email text,
  updated_at timestamptz not null default now(),
  constraint "notes are of a Kenyan phone" check (phone ~ '^\+254\d{9}$'),
  constraint "notes have words" check (char_length(trim(notes)) between 1 and 1000)
);
comment on table public.customer_notes is 'What staff note about a customer for each other. Erased with the customer''s data.';
alter table public.customer_notes enable row level security;
revoke all on public.customer_notes from anon, authenticated, service_role;
grant select on public.customer_notes to authenticated, service_role;
create policy "staff read every note about customers" on public.customer_notes
  for select to authenticated using ((select public.may('orders')));

create table public.blocked_phones (
  person_hash text primary key,
  phone text,
  reason text,
  blocked_by uuid,
  blocked_by_email text,
  blocked_at timestamptz not null default now(),
  constraint "a blocked phone has a reason, until both are erased" check ((phone is null) = (reason is null)),
  constraint "a reason for blocking has words" check (char_length(trim(reason)) between 3 and 200)
);
comment on table public.blocked_phones is
  'Phones that cannot place orders on the storefront. After an erasure only the keyed hash of the phone is left (private.hash_person).';
alter table public.blocked_phones enable row level security;
revoke all on public.blocked_phones from anon, authenticated, service_role;
grant select on public.blocked_phones to authenticated, service_role;
create policy "staff read every blocked phone" on public.blocked_phones for select to authenticated using ((select public.may('orders')));

create function private.is_blocked(phone text) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return exists (select from public.blocked_phones as b where b.person_hash = private.hash_person(is_blocked.phone));
end
$$;

create function private.refuse_blocked_phone(phone text) returns void
language plpgsql stable set search_path = '' as $$
begin
  if private.is_blocked(refuse_blocked_phone.phone) then
    perform private.refuse(403, 'phone_blocked', format(
      'We cannot take an online order for this phone number. Please call or WhatsApp us on %s, and we will help you',
      private.contact_numbers()
    ));
  end if;
end
$$;
comment on function private.refuse_blocked_phone is 'Refuses an order of a visitor with a blocked phone, and says how to reach the shop.';

create type public.listed_customer as (
  id uuid, created_at timestamptz, phone text, name text, orders integer, spent_cents bigint, credit_cents bigint, is_blocked boolean
);
comment on type public.listed_customer is
  'A customer in the list. id, created_at: of the last order. orders: without cancelled ones. spent_cents: what came for the orders, less what went back and what is owed. credit_cents: what is owed.';

create function private.sums_of_phones(phones text[])
returns table (phone text, orders integer, spent_cents bigint, credit_cents bigint)
language plpgsql stable rows 50 set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return query
    select wanted.phone, (count(*) filter (where o.status <> 'cancelled'))::integer,
      coalesce(sum(money.came_cents - money.back_cents), 0)::bigint, coalesce(sum(money.owed_cents), 0)::bigint
    from unnest(sums_of_phones.phones) as wanted (phone)
    cross join lateral (
      select o.id, o.status from public.orders as o where o.customer_phone = wanted.phone and o.customer_phone <> '' offset 0
    ) as o
    left join lateral (
      select sum(case when p.needs_refund then 0 else p.charge_cents end) as came_cents,
        sum(case when p.needs_refund then 0 else coalesce(notes.back_cents, 0) end) as back_cents,
        sum(coalesce(notes.owed_cents, 0)) as owed_cents
      from (
        select * from public.payments as p where p.order_id = o.id and p.status = 'completed' and p.refunded_at is null offset 0
      ) as p
      -- Without notes nothing is owed, and few payments have any.
      left join lateral (
        select change.owed_cents, change.owed_cents + change.returned_cents + change.used_cents as back_cents
        from private.change_of(p.id) as change
        where exists (select from public.change_notes as c where c.payment_id = p.id)
      ) as notes on true
    ) as money on true
    group by wanted.phone;
end
$$;
comment on function private.sums_of_phones is
  'Orders and money of phones (+254…). Credit that an order was paid from counts there, not where it came from.';

create function private.newest_of_phones(
  until_created_at timestamptz, until_id uuid, most integer, only_repeat boolean
) returns table (id uuid, created_at timestamptz, phone text, name text)
language plpgsql stable rows 50 set search_path = '' set enable_seqscan = off set enable_sort = off set jit = off as $$
begin
  -- Walks the newest orders, and keeps those that are the last of their phone: one step in the index of phones for each.
  return query
    select o.id, o.created_at, o.customer_phone, o.customer_name
    from public.orders as o
    cross join lateral (
      select newest.id from public.orders as newest
      where newest.customer_phone = o.customer_phone and newest.customer_phone <> ''
      order by newest.created_at desc, newest.id desc limit 1
    ) as last
    where last.id = o.id
      and (newest_of_phones.until_created_at is null
        or (o.created_at, o.id) < (newest_of_phones.until_created_at, newest_of_phones.until_id))
      and (not newest_of_phones.only_repeat or exists (
        select from public.orders as earlier
        where earlier.customer_phone = o.customer_phone and earlier.customer_phone <> ''
          and (earlier.created_at, earlier.id) < (o.created_at, o.id)
      ))
    order by o.created_at desc, o.id desc
    limit newest_of_phones.most;
end
$$;
comment on function private.newest_of_phones is 'The last order of each phone, the newest first, after the one named by until_created_at and until_id.';

create function private.last_of_phones(phones text[])
returns table (id uuid, created_at timestamptz, phone text, name text)
language plpgsql stable rows 50 set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return query
    select last.id, last.created_at, last.customer_phone, last.customer_name
    from (select distinct p.phone from unnest(last_of_phones.phones) as p (phone)) as wanted
    cross join lateral (
      select o.* from public.orders as o
      where o.customer_phone = wanted.phone and o.customer_phone <> ''
      order by o.created_at desc, o.id desc limit 1
    ) as last;
end
$$;

create function public.list_customers(
  search text default '', kind text default null, sort text default null,
  before_created_at timestamptz default null, before_id uuid default null, page_size integer default 25
) returns setof public.listed_customer
language plpgsql stable security definer rows 25 set search_path = '' as $$
#variable_conflict use_column
declare
  most constant integer := least(greatest(coalesce(list_customers.page_size, 25), 1), 1000);
  words constant text[] := array(
    select '%' || regexp_replace(w.word, '([\\%_])', '\\\1', 'g') || '%'
    from regexp_split_to_table(trim(left(private.without_accents(list_customers.search), 100)), '\s+') as w (word)
    where w.word <> ''
  );
  digits constant text := regexp_replace(left(list_customers.search, 100), '\D', '', 'g');
  phones text[];
begin
  perform private.expect_staff('orders');
  if list_customers.kind not in ('repeat', 'credit', 'blocked') then
    perform private.refuse(400, 'filter_unknown', 'Customers are listed with repeat orders, with credit, or blocked');
  elsif coalesce(list_customers.sort, '') not in ('', 'name', '-name', 'orders', '-orders', 'spent', '-spent') then
    perform private.refuse(400, 'sort_unknown', 'Customers are sorted by name, orders or spending');
  end if;
  if cardinality(words) = 0 and coalesce(list_customers.sort, '') = '' and coalesce(list_customers.kind, 'repeat') = 'repeat' then
    return query
      with page as (
        select n.* from private.newest_of_phones(
          list_customers.before_created_at, list_customers.before_id, most, list_customers.kind is not null
        ) as n
      ), sums as (
        select s.* from private.sums_of_phones((select array_agg(p.phone) from page as p)) as s
      )
      select p.id, p.created_at, p.phone, p.name, s.orders, s.spent_cents, s.credit_cents, private.is_blocked(p.phone)
      from page as p join sums as s on s.phone = p.phone
      order by p.created_at desc, p.id desc;
    return;
  end if;
  -- A search, a rare kind of customer, or another order than the date: all of a bounded set of phones, as in the lists of orders.
  phones := case
    when cardinality(words) > 0 then array(
      select distinct o.customer_phone from public.search_orders(search => list_customers.search, page_size => 500) as o
      where o.customer_phone <> '' and (
        private.without_accents(o.customer_name) like all (words)
        or (char_length(digits) >= 3 and o.customer_phone like '%' || ltrim(digits, '0') || '%')
        or o.customer_phone = private.normalised_phone(left(list_customers.search, 40))
      )
    )
    when list_customers.kind = 'credit' then array(
      select distinct k.customer_phone from public.kept_for_customers(page_size => 1000) as k where k.customer_phone <> ''
    )
    when list_customers.kind = 'blocked' then array(
      select b.phone from public.blocked_phones as b where b.phone is not null order by b.blocked_at desc limit 1000
    )
    else array(
      select distinct newest.customer_phone
      from (select o.customer_phone from public.orders as o order by o.created_at desc, o.id desc limit 5000) as newest
      where newest.customer_phone <> ''
    )
  end;
  return query
    with found as (
      select l.id, l.created_at, l.phone, l.name, s.orders, s.spent_cents, s.credit_cents, private.is_blocked(l.phone) as is_blocked
      from private.last_of_phones(phones) as l
      join private.sums_of_phones(phones) as s on s.phone = l.phone
      where case list_customers.kind
        when 'repeat' then s.orders > 1
        when 'credit' then s.credit_cents > 0
        else true
      end
    ), placed as (
      select f.*, row_number() over (
        order by
          case list_customers.sort when 'name' then lower(f.name) end, case list_customers.sort when '-name' then lower(f.name) end desc,
          case list_customers.sort when 'orders' then f.orders when '-orders' then -f.orders end,
          case list_customers.sort when 'spent' then f.spent_cents when '-spent' then -f.spent_cents end,
          f.created_at desc, f.id desc
      ) as place
      from found as f
      where list_customers.kind is distinct from 'blocked' or f.is_blocked
    )
    select p.id, p.created_at, p.phone, p.name, p.orders, p.spent_cents, p.credit_cents, p.is_blocked
    from placed as p
    where p.place > coalesce((select before.place from placed as before where before.id = list_customers.before_id), 0)
    order by p.place
    limit most;
end
$$;
comment on function public.list_customers is
  'For staff: a page of customers, those with the newest orders first, after the one named by before_created_at and before_id. search: words of the name, or digits of the phone, of the newest 500 orders that it finds. kind: repeat, credit or blocked. sort: name, orders, spent, with - before it for the opposite; by these only the customers of the newest 5,000 orders.';

create type public.shown_customer as (
  phone text, name text, email text, orders integer, cancelled integer, spent_cents bigint, credit_cents bigint, first_order_at timestamptz,
  notes text, notes_by text, notes_at timestamptz, is_blocked boolean, block_reason text, blocked_by text, blocked_at timestamptz
);
comment on type public.shown_customer is
  'A customer as staff see them: sums as in listed_customer. name: of the last order; null: no order has the phone. block_reason: null although is_blocked: an erasure removed it.';

create function public.customer_page(phone text) returns public.shown_customer
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  wanted constant text := private.normalised_phone(customer_page.phone);
  shown public.shown_customer;
begin
  perform private.expect_staff('orders');
  if wanted is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)');
  end if;
  shown.phone := wanted;
  select (array_agg(o.customer_name order by o.created_at desc, o.id desc))[1],
    (array_agg(o.customer_email order by o.created_at desc, o.id desc) filter (where o.customer_email <> ''))[1],
    count(*) filter (where o.status = 'cancelled'), min(o.created_at)
  into shown.name, shown.email, shown.cancelled, shown.first_order_at
  from private.orders_of_phone(wanted) as o;
  select s.orders, s.spent_cents, s.credit_cents into shown.orders, shown.spent_cents, shown.credit_cents
  from private.sums_of_phones(array[wanted]) as s;
  shown.orders := coalesce(shown.orders, 0);
  shown.spent_cents := coalesce(shown.spent_cents, 0);
  shown.credit_cents := coalesce(shown.credit_cents, 0);
  select n.notes, n.noted_by_email, n.updated_at into shown.notes, shown.notes_by, shown.notes_at
  from public.customer_notes as n where n.phone = wanted;
  select true, b.reason, b.blocked_by_email, b.blocked_at
  into shown.is_blocked, shown.block_reason, shown.blocked_by, shown.blocked_at
  from public.blocked_phones as b where b.person_hash = private.hash_person(wanted);
  shown.is_blocked := coalesce(shown.is_blocked, false);
  return shown;
end
$$;
comment on function public.customer_page is 'For staff: what is known of a phone, in any Kenyan format.';

create function private.read_customer_phone(phone text) returns text
language plpgsql stable set search_path = '' as $$
declare
  wanted constant text := private.normalised_phone(read_customer_phone.phone);
begin
  if wanted is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)');
  end if;
  return wanted;
end
$$;

create function public.note_customer(phone text, notes text, seen_at timestamptz default null) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('orders');
  wanted text := private.read_customer_phone(note_customer.phone);
  words text := private.visible_text(note_customer.notes);
  known public.customer_notes;
begin
  if char_length(words) > 1000 then
    perform private.refuse(400, 'notes_too_long', 'The notes are longer than 1,000 characters');
  end if;
  perform pg_advisory_xact_lock(hashtextextended('notes about ' || wanted, 0));
  select * into known from public.customer_notes as n where n.phone = wanted;
  if known.updated_at is distinct from note_customer.seen_at then
    perform private.refuse(409, 'notes_changed', 'These notes were changed in the meantime. Nothing was saved');
  elsif words is null then
    delete from public.customer_notes as n where n.phone = wanted;
  else
    insert into public.customer_notes as n (phone, notes, noted_by, noted_by_email)
    values (wanted, words, member, private.email_of(member))
    on conflict (phone) do update set
      notes = excluded.notes, noted_by = excluded.noted_by, noted_by_email = excluded.noted_by_email,
      updated_at = greatest(clock_timestamp(), n.updated_at + interval '1 millisecond');
  end if;
end
$$;
comment on function public.note_customer is
  'For staff: sets the notes about a phone, or removes them (blank). seen_at: updated_at of the notes that the member saw; null: none.';

create function public.block_phone(phone text, reason text) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('orders');
  wanted text := private.read_customer_phone(block_phone.phone);
begin
  insert into public.blocked_phones as b (person_hash, phone, reason, blocked_by, blocked_by_email)
  values (
    private.hash_person(wanted), wanted, private.read_reason(block_phone.reason, is_required => true), member, private.email_of(member)
  )
  on conflict (person_hash) do update set
    phone = excluded.phone, reason = excluded.reason, blocked_by = excluded.blocked_by, blocked_by_email = excluded.blocked_by_email,
    blocked_at = now();
end
$$;
comment on function public.block_phone is
  'For staff: a phone cannot place orders on the storefront any more; staff can still enter them. Its present orders stay as they are.';

create function public.unblock_phone(phone text) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  wanted text;
begin
  perform private.expect_staff_member('orders');
  wanted := private.read_customer_phone(unblock_phone.phone);
  delete from public.blocked_phones as b where b.person_hash = private.hash_person(wanted);
end
$$;
comment on function public.unblock_phone is 'For staff: a phone can place orders again. Repeating it changes nothing.';

create function public.nth_order(ordered public.orders) returns integer
language sql stable set search_path = '' as $$
  select count(*)::integer from (
    select from public.orders as o
    where o.customer_phone = ordered.customer_phone and o.customer_phone <> '' and o.status <> 'cancelled'
      and (o.created_at, o.id) <= (ordered.created_at, ordered.id)
    limit 100
  ) as counted;
$$;
comment on function public.nth_order is
  'Which order of its phone this is, without cancelled ones; 100: or a later one, 0: unknown. Counts orders that the caller may read.';

-- Execution rights
grant execute on function public.list_customers, public.customer_page, public.note_customer, public.block_phone, public.unblock_phone,
  public.nth_order to authenticated, service_role;
