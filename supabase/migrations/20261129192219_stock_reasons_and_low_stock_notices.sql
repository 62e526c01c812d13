-- Earlier versions keep working: change_stock has new parameters with defaults, a history has one more value, which they ignore, and they
-- show a notice of a kind that they do not know without words, for the minutes of the update.

alter table public.stock_changes add column reason text;
comment on column public.stock_changes.reason is 'Why, in the words of the member. Null: none was given.';

alter table public.notices drop constraint "a kind of notice is known";

drop function public.change_stock(uuid,integer);

drop function public.product_history(uuid,bigint,bigint,integer);

revoke all on public.notices from anon, authenticated;

alter table public.notices add constraint "a kind of notice is known" CHECK ((kind = ANY (ARRAY['paid_order'::text, 'late_order'::text, 'failed_delivery'::text, 'cancel_request'::text, 'order_to_agree'::text, 'refund_to_approve'::text, 'inquiry'::text, 'low_stock'::text])));

alter table public.stock_changes add constraint "only an edit has a reason, of at most 200 characters" CHECK (((reason IS NULL) OR ((cause = 'edited'::text) AND ((char_length(reason) >= 3) AND (char_length(reason) <= 200)))));

create or replace function private.record_stock_change(product_id uuid, from_units integer, to_units integer) returns void
language plpgsql set search_path = '' as $$
declare
  member constant uuid := auth.uid();
  stated constant text := coalesce(current_setting('private.cause_of_units', true), '');
begin
  insert into public.stock_changes (product_id, from_units, to_units, cause, order_id, changed_by, changed_by_email, reason)
  values (
    record_stock_change.product_id, record_stock_change.from_units, record_stock_change.to_units,
    case when stated = '' then 'edited' else split_part(stated, ' ', 1) end,
    nullif(split_part(stated, ' ', 2), '')::uuid,
    member, case when member is not null then private.email_of(member) end,
    nullif(current_setting('private.reason_of_stock_change', true), '')
  );
end
$$;

create or replace function public.product_history(
  product_id uuid, before_stock_change bigint default null, before_price_change bigint default null, page_size integer default 50
) returns table (
  kind text, id bigint, from_value integer, to_value integer, cause text, order_id uuid, order_number text, changed_by_email text,
  changed_at timestamptz, reason text
)
language plpgsql stable security definer rows 50 set search_path = '' as $$
#variable_conflict use_column
declare
  most constant integer := least(greatest(coalesce(page_size, 50), 1), 200);
begin
  perform private.expect_staff('products');
  -- Of one edit, the trigger records the price before the stock.
  return query
    with changes as (
      (
        select 'stock' as kind, s.id, s.from_units, s.to_units, s.cause, s.order_id, s.changed_by_email, s.changed_at, s.reason
        from public.stock_changes as s
        where s.product_id = product_history.product_id and s.id < coalesce(before_stock_change, 9223372036854775807)
        order by s.id desc limit most
      )
      union all
      (
        select 'price', c.id, c.from_cents, c.to_cents, 'edited', null, c.changed_by_email, c.changed_at, null
        from public.price_changes as c
        where c.product_id = product_history.product_id and c.id < coalesce(before_price_change, 9223372036854775807)
        order by c.id desc limit most
      )
    )
    select c.kind, c.id, c.from_units, c.to_units, c.cause, c.order_id, o.order_number, c.changed_by_email, c.changed_at, c.reason
    from (select * from changes order by changes.changed_at desc, changes.kind desc, changes.id desc limit most) as c
    left join lateral (select own.order_number from public.orders as own where own.id = c.order_id offset 0) as o on true
    order by c.changed_at desc, c.kind desc, c.id desc;
end
$$;

comment on function public.product_history is
  'For staff: a page of the changes of a product''s stock (units) and price (cents), newest first. The next page is before the smallest id of each kind so far.';

-- Stock, brands, lists

create or replace function public.change_stock(
  product_id uuid, by integer, reason text default null, seen_units integer default null
) returns integer
language plpgsql security definer set search_path = '' as $$
declare
  units integer;
begin
  perform private.expect_staff('products');
  perform set_config('private.reason_of_stock_change', coalesce(private.read_reason(change_stock.reason), ''), true);
  update public.products as p set stock_quantity = p.stock_quantity + change_stock.by
  where p.id = change_stock.product_id and p.stock_quantity::bigint + change_stock.by between 0 and 2147483647
    and p.stock_quantity = coalesce(change_stock.seen_units, p.stock_quantity)
  returning p.stock_quantity into units;
  if not found then
    select p.stock_quantity into units from public.products as p where p.id = change_stock.product_id;
    if not found then
      perform private.refuse(404, 'product_unavailable', 'This product is not available');
    elsif units <> change_stock.seen_units then
      perform private.refuse(409, 'stock_changed', format('There are %s in stock now', units), units::text);
    end if;
    perform private.refuse(409, 'not_enough_stock', format('Only %s left in stock', units), units::text);
  end if;
  perform set_config('private.reason_of_stock_change', '', true);
  perform private.note_answer(to_jsonb(units));
  return units;
end
$$;

comment on function public.change_stock is
  'For staff: adds units to the stock of a product, or takes some away (by < 0), whatever was sold in the meantime; with seen_units only if that is the stock. reason: why, in their own words. Returns the units now.';

-- Execution rights
grant execute on function public.find_products, public.list_categories, public.list_brands, public.product_history, public.change_stock,
  public.typical_price to authenticated, service_role;

create or replace function private.after_product_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if (old.id, old.name, old.tagline, old.description, old.category, old.brand, old.is_active, old.created_at,
      old.previous_price is null)
    is distinct from
    (new.id, new.name, new.tagline, new.description, new.category, new.brand, new.is_active, new.created_at,
      new.previous_price is null)
  then
    perform private.update_product_search(old, new);
    perform private.count_active_products(old, new);
  end if;
  if tg_op = 'UPDATE' and old.price <> new.price then
    perform private.record_price_change(new.id, new.name, old.price, new.price);
  end if;
  if tg_op <> 'DELETE' and coalesce(old.stock_quantity, 0) <> new.stock_quantity then
    perform private.record_stock_change(new.id, coalesce(old.stock_quantity, 0), new.stock_quantity);
  end if;
  -- Not of a product that is added or activated with a low stock.
  if tg_op = 'UPDATE' and new.is_active and new.is_low_on_stock and not old.is_low_on_stock then
    perform private.note_low_stock(new.id);
  end if;
  -- Of the stock, pages only show whether there is any.
  if (old.name, old.slug, old.tagline, old.description, old.price, old.previous_price, old.image_url, old.category,
      old.brand, old.is_active, old.home_section, old.home_position, old.sold_out_until, old.stock_quantity = 0,
      old.size, old.khat_strength, old.caffeine, old.sweetened_with, old.keeps, old.allergens, old.serving_note, old.more_images)
    is distinct from
    (new.name, new.slug, new.tagline, new.description, new.price, new.previous_price, new.image_url, new.category,
      new.brand, new.is_active, new.home_section, new.home_position, new.sold_out_until, new.stock_quantity = 0,
      new.size, new.khat_strength, new.caffeine, new.sweetened_with, new.keeps, new.allergens, new.serving_note, new.more_images)
  then
    perform private.announce_product_change(old, new);
  end if;
  return null;
end
$$;

comment on table public.notices is
  'Events that wait for staff: a new paid order, a late order, a failed delivery, a request to cancel, an order to agree on, a refund to approve, an inquiry, a drink that is low on stock. Deleted after a week.';

comment on column public.notices.event_key is
  'What makes the event unique within its kind: the id of the order, refund or inquiry; of failed deliveries with the number of failures, of requests to cancel with their time. Of a low stock the product and the day, and the member whose edit it was.';

comment on column public.notices.caused_by is 'The member who caused the event and needs no notice of it. Null: a customer, or the shop itself.';

alter table public.notices enable row level security;

grant select on public.notices to authenticated;

-- Otherwise realtime would announce changes to visitors, without their rows.
grant select (id) on public.notices to anon;

create or replace function private.notice_kinds() returns text[]
language sql immutable
return array['paid_order', 'late_order', 'failed_delivery', 'cancel_request', 'order_to_agree', 'refund_to_approve', 'inquiry', 'low_stock'];

create or replace function private.notice_area(kind text) returns text
language sql immutable
return case kind
  when 'inquiry' then 'inquiries' when 'refund_to_approve' then 'approvals' when 'cancel_request' then 'refunds' when 'order_to_agree' then 'orders'
  when 'low_stock' then 'products'
  else 'deliveries'
end;

comment on function private.notice_area is 'The area that a role must have to get a notice (private.areas_of).';

create or replace function private.add_notice(kind text, event_key text, order_id uuid default null, caused_by uuid default null) returns void
language plpgsql set search_path = '' as $$
declare
  added public.notices;
begin
  -- Anyone can write inquiries, and place unpaid orders. The others are counted in the panel.
  if add_notice.kind in ('inquiry', 'order_to_agree') and private.count_hit('notices', add_notice.kind, interval '1 hour') > 20 then
    return;
  end if;
  insert into public.notices (kind, event_key, order_id, caused_by)
  values (add_notice.kind, add_notice.event_key, add_notice.order_id, add_notice.caused_by)
  on conflict on constraint "an event has one notice" do nothing
  returning * into added;
  if added.id is not null then
    insert into private.push_queue (notice_id, subscription_id, due_at)
    select added.id, s.id, now() + case when added.kind in ('failed_delivery', 'low_stock') then private.undo_window() else interval '0' end
    from public.push_subscriptions as s
    where added.kind = any (s.kinds) and s.user_id is distinct from added.caused_by;
  end if;
exception when others then
  -- Its cause stays valid without the notice.
  raise warning 'no notice % could be added: %', add_notice.kind, sqlerrm;
end
$$;

comment on function private.add_notice is
  'Adds the notice of an event, unless it exists, and queues its push to all devices that want its kind, except those of the member who caused it. Never fails.';

create or replace function private.note_low_stock(product_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  -- Null for orders: a member who enters one does not see the stock, and gets the notice, too.
  editor constant uuid := case when coalesce(current_setting('private.cause_of_units', true), '') = '' then auth.uid() end;
begin
  -- Counted without private.count_hit: orders would wait for its row while they hold their products.
  if (select count(*) from public.notices as n where n.kind = 'low_stock' and n.created_at > now() - interval '1 hour') >= 20 then
    return;
  end if;
  -- Once a day: units that unpaid orders hold return, so that a stock can become low many times.
  perform private.add_notice('low_stock', concat_ws(' ', note_low_stock.product_id, private.nairobi_day(now()), editor), caused_by => editor);
end
$$;

comment on function private.note_low_stock is
  'Adds the notice of a product whose stock has just become low, once a day for orders and for each member who edits; at most 20 an hour.';

create or replace function private.is_notice_waiting(notice public.notices) returns boolean
language plpgsql stable set search_path = '' as $$
declare
  step text;
begin
  if notice.kind = 'refund_to_approve' then
    return exists (select from public.refunds as r where r.id::text = notice.event_key and r.status = 'requested');
  elsif notice.kind = 'inquiry' then
    return exists (select from public.inquiries as i where i.id = notice.event_key::uuid and not i.is_read);
  elsif notice.kind = 'low_stock' then
    return exists (
      select from public.products as p where p.id = split_part(notice.event_key, ' ', 1)::uuid and p.is_active and p.is_low_on_stock
    );
  elsif notice.kind = 'cancel_request' then
    return exists (select from public.orders as o where o.id = notice.order_id and private.has_cancel_request(o));
  elsif notice.kind = 'order_to_agree' then
    return exists (select from public.orders as o where o.id = notice.order_id and o.awaits_agreement and private.is_open_order(o.status));
  end if;
  select private.work_step(o, d) into step
  from public.orders as o
  join public.deliveries as d on d.order_id = o.id
  where o.id = notice.order_id;
  return coalesce(case notice.kind
    when 'paid_order' then step = 'prepare'
    when 'failed_delivery' then step = 'failed'
    else true
  end and step is not null, false);
end
$$;

comment on function private.is_notice_waiting is
  'Whether the event still waits for staff. It waits until the paid order is taken, the late order delivered, the failed delivery sent again, the request to cancel answered, fee and day agreed on, the refund decided, or the inquiry read; a low stock as long as the active product is low.';

create or replace function private.notice_facts(notice public.notices) returns jsonb
language sql stable set search_path = '' as $$
  select case
    when notice.kind = 'inquiry' then (
      select jsonb_build_object('name', i.name) from public.inquiries as i where i.id = notice.event_key::uuid
    )
    when notice.kind = 'low_stock' then (
      select jsonb_build_object('product_name', p.name, 'units', p.stock_quantity)
      from public.products as p where p.id = split_part(notice.event_key, ' ', 1)::uuid
    )
    when notice.kind = 'refund_to_approve' then (
      select jsonb_build_object('refund_cents', r.refund_cents, 'requested_by', r.requested_by_email, 'order_number', o.order_number)
      from public.refunds as r
      left join public.payments as p on p.id = r.payment_id
      left join public.orders as o on o.id = p.order_id
      where r.id = notice.event_key::uuid
    )
    else (
      select jsonb_build_object(
        'order_number', o.order_number, 'name', o.customer_name, 'shipping_address', o.shipping_address, 'city', o.city,
        'charge_cents', o.charge_cents, 'failure_reason', (select d.failure_reason from public.deliveries as d where d.order_id = o.id),
        'items', array(
          select jsonb_build_object('quantity', i.quantity, 'product_name', i.product_name, 'brand', p.brand)
          from public.order_items as i left join public.products as p on p.id = i.product_id
          where i.order_id = o.id order by i.position
        )
      )
      from public.orders as o where o.id = notice.order_id
    )
  end;
$$;

comment on function private.notice_facts is 'What a notice says, in its parts (domain/notice-text.ts). A push leaves names out.';
