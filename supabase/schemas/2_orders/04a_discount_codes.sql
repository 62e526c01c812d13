-- Discount codes: what they take off the price of an order's drinks, and who may use them (docs/decisions/discount-codes.md).
-- Amounts are in cents.

create table public.discount_codes (
  id uuid primary key default gen_random_uuid(),
  code text not null,
  percent smallint,
  amount_cents integer,
  minimum_cents integer not null default 0,
  starts_at timestamptz,
  ends_at timestamptz,
  max_uses integer,
  max_uses_per_phone integer,
  is_active boolean not null default true,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint "discount codes are unique" unique (code),
  constraint "a discount code has 3 to 20 capitals, digits and hyphens" check (code ~ '^[A-Z0-9][A-Z0-9-]{1,18}[A-Z0-9]$'),
  constraint "a discount is a percentage or an amount" check (num_nonnulls(percent, amount_cents) = 1),
  constraint "a percentage is 1 to 100" check (percent between 1 and 100),
  constraint "a discount is whole shillings" check (amount_cents between 100 and 100000000 and amount_cents % 100 = 0),
  constraint "a minimum is whole shillings" check (minimum_cents between 0 and 100000000 and minimum_cents % 100 = 0),
  constraint "a discount code ends after it starts" check (ends_at > starts_at),
  constraint "a discount code can be used at least once" check (max_uses >= 1 and max_uses_per_phone >= 1)
);
comment on table public.discount_codes is
  'Codes with which customers pay less for the drinks of an order. Once an order has one, its discount never changes, and it cannot be deleted.';
comment on column public.discount_codes.percent is 'Percentage of the price of the drinks. Null: amount_cents is taken off.';
comment on column public.discount_codes.minimum_cents is 'The price of an order''s drinks from which the code applies.';
comment on column public.discount_codes.starts_at is 'Null: from its creation.';
comment on column public.discount_codes.ends_at is 'The first moment at which it applies no more. Null: it has no end.';
comment on column public.discount_codes.max_uses is 'Maximum orders with the code, cancelled unpaid ones not counted. Null: no limit.';
comment on column public.discount_codes.max_uses_per_phone is 'The same of one phone.';
comment on column public.discount_codes.is_active is 'Inactive: no order can use it, whatever its dates.';
comment on column public.discount_codes.updated_at is
  'Changes with every edit. A save sends the value that it read, and changes nothing if the row has changed since.';
alter table public.discount_codes enable row level security;
grant
  select,
  insert (code, percent, amount_cents, minimum_cents, starts_at, ends_at, max_uses, max_uses_per_phone, is_active),
  update (
    code, percent, amount_cents, minimum_cents, starts_at, ends_at, max_uses, max_uses_per_phone, is_active, updated_at
  ),
  delete on public.discount_codes to authenticated;
create policy "staff read the discount codes" on public.discount_codes for select to authenticated using ((select public.may('orders')));
create policy "owners add discount codes" on public.discount_codes for insert to authenticated with check ((select public.may('settings')));
create policy "owners edit the discount codes" on public.discount_codes
  for update to authenticated using ((select public.may('settings'))) with check ((select public.may('settings')));
create policy "owners delete discount codes" on public.discount_codes for delete to authenticated using ((select public.may('settings')));

create function private.read_discount_code(written text) returns text
language plpgsql immutable set search_path = '' as $$
begin
  -- left is cheap: a longer text is none of the codes, whatever it is.
  return nullif(upper(regexp_replace(left(written, 100), '\s', '', 'g')), '');
end
$$;
comment on function private.read_discount_code is 'A code as it was typed, in capitals and without white space. Null for none.';

create function private.before_discount_code_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op <> 'DELETE' then
    new.code := coalesce(private.read_discount_code(new.code), '');
  end if;
  -- The row is locked by now, and orders with the code lock it, too.
  if (tg_op = 'DELETE' or (
      tg_op = 'UPDATE' and (old.code, old.percent, old.amount_cents, old.minimum_cents)
        is distinct from (new.code, new.percent, new.amount_cents, new.minimum_cents)
    )) and exists (select from public.orders as o where o.discount_code = old.code)
  then
    perform private.refuse(409, 'discount_in_use',
      'Orders have this code, so it can be neither deleted nor given another discount. End it, and create another one');
  elsif tg_op = 'DELETE' then
    return old;
  elsif tg_op = 'UPDATE' then
    new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  end if;
  return new;
end
$$;

create trigger discount_codes_before_change before insert or update or delete on public.discount_codes
  for each row execute function private.before_discount_code_change();

-- The one rounding rule of discounts; domain/orders/discount.ts shows what it will be.
create function private.discount_on(discount public.discount_codes, drinks_cents bigint, delivery_fee integer) returns integer
language sql immutable
return case when drinks_cents >= discount.minimum_cents then greatest(0, least(
  coalesce(discount.amount_cents, (drinks_cents * discount.percent + 9999) / 10000 * 100),
  drinks_cents,
  drinks_cents + delivery_fee - 100
)) else 0 end;
comment on function private.discount_on is
  'What a code takes off the price of drinks, in cents. A percentage is rounded up to whole shillings, so that the customer gets at least what was promised. Never more than the drinks cost, and one shilling is left to pay, the least that M-PESA takes. 0 below the minimum.';

create function private.counts_as_use(status text, payment_status text) returns boolean
language sql immutable
return not (status = 'cancelled' and payment_status = 'unpaid');
comment on function private.counts_as_use is
  'Whether an order with a code is one of its uses. An order that expired or was cancelled unpaid gives its use back.';

create function private.has_uses_left(discount public.discount_codes, phone text default null, own_order uuid default null) returns boolean
language plpgsql volatile set search_path = '' as $$
begin
  -- Two queries, so that each reads only its part of the index.
  if has_uses_left.phone is not null then
    return discount.max_uses_per_phone is null or discount.max_uses_per_phone > (
      select count(*) from public.orders as o
      where o.discount_code = discount.code and o.customer_phone = has_uses_left.phone
        and private.counts_as_use(o.status, o.payment_status) and o.id is distinct from has_uses_left.own_order
    );
  end if;
  return discount.max_uses is null or discount.max_uses > (
    select count(*) from (
      select from public.orders as o
      where o.discount_code = discount.code
        and private.counts_as_use(o.status, o.payment_status) and o.id is distinct from has_uses_left.own_order
      limit discount.max_uses
    ) as used
  );
end
$$;
comment on function private.has_uses_left is
  'Whether fewer orders than allowed have the code: of a phone, or of all customers if phone is null. Without own_order. Volatile: it must see what was committed until now.';

create function private.is_discount_open(discount public.discount_codes) returns boolean
language plpgsql volatile set search_path = '' as $$
begin
  return discount.id is not null and discount.is_active
    and (discount.starts_at is null or discount.starts_at <= now()) and (discount.ends_at is null or discount.ends_at > now());
end
$$;
comment on function private.is_discount_open is 'Whether the code exists, is active, has started and has not ended.';

create function private.find_discount(code text, phone text, own_order uuid default null) returns public.discount_codes
language plpgsql volatile set search_path = '' as $$
declare
  discount public.discount_codes;
begin
  if own_order is null then
    select * into discount from public.discount_codes as d where d.code = find_discount.code;
  else
    -- Orders with the same code wait for each other from here to their end: the last use is given once.
    select * into discount from public.discount_codes as d where d.code = find_discount.code for no key update;
  end if;
  -- One answer to a code that never existed and to one that is over.
  if not private.is_discount_open(discount) or not private.has_uses_left(discount, own_order => find_discount.own_order) then
    perform private.refuse(409, 'discount_invalid', 'This discount code is not valid, or it has ended');
  elsif not private.has_uses_left(discount, find_discount.phone, find_discount.own_order) then
    perform private.refuse(409, 'discount_used', 'This discount code was used with this phone number already');
  end if;
  return discount;
end
$$;
comment on function private.find_discount is
  'The code that an order of this phone may use; refuses any other. own_order: the order that uses it, which must exist; the code is locked then.';

create function public.check_discount_code(code text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  networks text[] := case when public.may('orders') then '{}' else private.caller_networks() end;
  discount public.discount_codes;
begin
  if cardinality(networks) > 0 then
    -- Guesses are serialised, so that each is counted before the next is compared. The widest network contains the others.
    perform pg_advisory_xact_lock(hashtext('discount_codes ' || networks[cardinality(networks)]));
    if not private.is_within_limit('discount_codes') then
      return private.refusal_answer('PT429', format(
        'Too many wrong discount codes from your network. Please try again in %s, or order without one', private.time_left('discount_codes')
      ), 'too_many_discount_codes', '');
    end if;
  end if;
  select * into discount from public.discount_codes as d where d.code = private.read_discount_code(check_discount_code.code);
  if not private.is_discount_open(discount) or not private.has_uses_left(discount) then
    perform private.count_call_from(networks, 'discount_codes');
    return private.refusal_answer('PT409', 'This discount code is not valid, or it has ended', 'discount_invalid', '');
  end if;
  return private.discount_terms(discount);
end
$$;
comment on function public.check_discount_code is
  'The discount of a code that can be used now, so that the order form can show it: code, percent or amount_cents, minimum_cents. place_order decides. Wrong codes are counted (discount_codes in private.limits), those of staff are not.';

create function private.discount_terms(discount public.discount_codes) returns jsonb
language sql immutable
return jsonb_build_object(
  'code', discount.code, 'percent', discount.percent, 'amount_cents', discount.amount_cents, 'minimum_cents', discount.minimum_cents
);

create function public.list_discount_codes(
  search text default '', before_created_at timestamptz default null, before_id uuid default null, page_size integer default 500,
  only_id uuid default null
) returns table (
  id uuid, code text, percent smallint, amount_cents integer, minimum_cents integer, starts_at timestamptz, ends_at timestamptz,
  max_uses integer, max_uses_per_phone integer, is_active boolean, created_at timestamptz, updated_at timestamptz,
  uses bigint, waiting bigint, cost_cents bigint, sold_cents bigint, has_orders boolean
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  words constant text := regexp_replace(private.read_discount_code(list_discount_codes.search), '([\\%_])', '\\\1', 'g');
begin
  perform private.expect_staff('settings');
  return query
  select d.id, d.code, d.percent, d.amount_cents, d.minimum_cents, d.starts_at, d.ends_at,
    d.max_uses, d.max_uses_per_phone, d.is_active, d.created_at, d.updated_at,
    used.uses, used.waiting, used.cost_cents, used.sold_cents, used.has_orders
  from (
    select * from public.discount_codes as d
    where (list_discount_codes.only_id is null or d.id = list_discount_codes.only_id)
      and (words is null or d.code like '%' || words || '%')
      and (
        list_discount_codes.before_id is null
        or (d.created_at, d.id) < (list_discount_codes.before_created_at, list_discount_codes.before_id)
      )
    order by d.created_at desc, d.id desc
    limit least(greatest(coalesce(list_discount_codes.page_size, 500), 1), 1000)
  ) as d
  cross join lateral (
    select count(*) filter (where private.counts_as_use(o.status, o.payment_status)) as uses,
      count(*) filter (where o.payment_status = 'unpaid' and o.status <> 'cancelled') as waiting,
      coalesce(sum(o.discount_cents) filter (where o.payment_status = 'paid'), 0)::bigint as cost_cents,
      coalesce(sum(o.total_amount) filter (where o.payment_status = 'paid'), 0)::bigint as sold_cents,
      count(*) > 0 as has_orders
    from public.orders as o where o.discount_code = d.code
  ) as used
  order by d.created_at desc, d.id desc;
end
$$;
comment on function public.list_discount_codes is
  'For staff: a page of discount codes, the newest first, after the one named by before_created_at and before_id. search: a part of the code. only_id: this one alone. uses: orders with the code, cancelled unpaid ones not counted; waiting: those of them that wait for their payment. cost_cents and sold_cents: the discounts and the totals of paid orders. has_orders: it was used at least once, so it can be neither changed nor deleted.';

-- Execution rights
grant execute on function public.check_discount_code to anon, authenticated, service_role;
grant execute on function public.list_discount_codes to authenticated;
