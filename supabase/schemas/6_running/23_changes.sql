-- What follows from a change: notifications, then the triggers (docs/architecture.md).

-- Notifications that clear cached pages, and tables that realtime publishes to staff screens

create function private.announce_page_change() returns trigger
language plpgsql set search_path = '' as $$
begin
  perform pg_catalog.pg_notify('page_changes', jsonb_build_object('table', tg_table_name)::text);
  return null;
end
$$;
comment on function private.announce_page_change is 'Notifies page_changes, as JSON, that rows of this table changed.';

create function private.announce_product_change(old public.products, new public.products) returns void
language plpgsql set search_path = '' as $$
declare
  change jsonb := '{"table": "products"}';
begin
  if old.id is not null then
    change := change || jsonb_build_object('old', jsonb_build_object(
      'slug', old.slug, 'category', old.category, 'is_active', old.is_active,
      'home_section', old.home_section, 'home_position', old.home_position));
  end if;
  if new.id is not null then
    change := change || jsonb_build_object('new', jsonb_build_object(
      'slug', new.slug, 'category', new.category, 'is_active', new.is_active,
      'home_section', new.home_section, 'home_position', new.home_position));
  end if;
  -- A notification has at most 8000 bytes. Without keys it means any row of the table.
  if octet_length(change::text) > 7000 then
    change := '{"table": "products"}';
  end if;
  perform pg_catalog.pg_notify('page_changes', change::text);
end
$$;
comment on function private.announce_product_change is
  'Notifies page_changes, as JSON, of a product''s keys before and after a change.';

create function private.notify_access_change(user_id uuid) returns void
language plpgsql set search_path = '' as $$
begin
  -- No details: screens query the services then. Only the account has its id, which names the topic.
  perform realtime.send('{}'::jsonb, 'access_changed', 'staff-' || notify_access_change.user_id, false);
end
$$;
comment on function private.notify_access_change is
  'Broadcasts access_changed on the live channel staff-{user_id}: a session of the account ended, it is no longer active staff, or its role changed.';

-- A hosted project lets no one drop a trigger of auth.sessions: this function keeps its name.
create function private.announce_access_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.end_push_subscriptions(old.user_id, old.id);
  perform private.notify_access_change(old.user_id);
  return null;
end
$$;
comment on function private.announce_access_change is
  'Trigger of sessions: ends the push subscriptions of a session that ended, and announces its end to the account.';

create trigger products_after_truncate after truncate on public.products
  for each statement execute function private.announce_page_change();
create function private.after_page_text_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if old is not distinct from new then
    return null;
  end if;
  perform pg_catalog.pg_notify('page_changes', jsonb_build_object('table', tg_table_name)::text);
  if tg_op = 'UPDATE' then
    perform private.record_audit_event(
      'shop_text_changed', new.name, jsonb_build_object('body', old.page_text), jsonb_build_object('body', new.page_text)
    );
  end if;
  if tg_table_name = 'categories' then
    perform private.audit_row(
      'category', new.name,
      case when tg_op = 'UPDATE' then jsonb_build_object('name', old.name, 'is_active', old.is_active) end,
      jsonb_build_object('name', new.name, 'is_active', new.is_active)
    );
  end if;
  return null;
end
$$;
create trigger categories_after_change after insert or update on public.categories
  for each row execute function private.after_page_text_change();
create trigger brands_after_change after update on public.brands
  for each row execute function private.after_page_text_change();
create trigger categories_after_statement after insert or delete or truncate on public.categories
  for each statement execute function private.announce_page_change();
create trigger store_settings_after_statement after insert or delete or truncate on public.store_settings
  for each statement execute function private.announce_page_change();
create function private.after_shop_text_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform pg_catalog.pg_notify('page_changes', '{"table": "shop_texts"}');
  perform private.record_audit_event(
    'shop_text_changed', new.title,
    jsonb_build_object('title', old.title, 'body', old.body), jsonb_build_object('title', new.title, 'body', new.body)
  );
  return null;
end
$$;
create trigger shop_texts_after_change after update on public.shop_texts
  for each row
  when (old.* is distinct from new.*)
  execute function private.after_shop_text_change();
create trigger shop_texts_after_statement after insert or delete or truncate on public.shop_texts
  for each statement execute function private.announce_page_change();
create trigger search_synonyms_after_statement after insert or update or delete or truncate on public.search_synonyms
  for each statement execute function private.announce_page_change();
create trigger delivery_areas_after_statement after insert or update or delete or truncate on public.delivery_areas
  for each statement execute function private.announce_page_change();
create function private.after_quote_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if coalesce(old.quoted_at, new.quoted_at) is not null and (old.quoted_at, old.words) is distinct from (new.quoted_at, new.words) then
    perform pg_catalog.pg_notify('page_changes', '{"table": "ratings"}');
  end if;
  -- The choices of staff. A customer who changes the words hides them, too.
  if tg_op = 'UPDATE' and (old.quoted_at is null) <> (new.quoted_at is null) and auth.uid() is not null then
    perform private.record_audit_event(
      case when new.quoted_at is null then 'quote_hidden' else 'quote_shown' end,
      (select o.order_number from public.orders as o where o.id = new.order_id), null, null
    );
  end if;
  return null;
end
$$;
create trigger ratings_after_change after update or delete on public.ratings
  for each row execute function private.after_quote_change();
create trigger sessions_announce_their_end after delete on auth.sessions for each row execute function private.announce_access_change();

-- The realtime service checks this policy for sending to public topics, such as order-{id}: visitors only receive. Private topics
-- require the secret key.
create policy "Staff send broadcasts to public topics" on realtime.messages for insert to authenticated
with check (extension = 'broadcast' and not private and (select public.is_admin()));

alter publication supabase_realtime add table
  public.orders, public.inquiries, public.deliveries, public.payments, public.products, public.categories,
  public.store_settings, public.outbox_messages, public.message_templates, public.mpesa_transactions,
  public.messages_to_check, public.statement_pulls, public.reconciliation_events, public.refunds, public.shop_texts, public.search_synonyms,
  public.reply_templates, public.day_closes, public.discount_codes, public.delivery_areas, public.brands;

-- Triggers: one for each table and timing, which calls its steps in the order written here. Steps run as the owner. A change by a
-- step fires its triggers before the next step begins. old is null for an inserted row, new for a deleted one.

-- Products, categories and settings

create function private.before_product_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'INSERT' then
    new := private.without_invisible_texts(new);
    new.brand := nullif(new.brand, '');
    perform private.add_brand(new.brand) where new.brand is not null;
    return new;
  end if;
  perform set_config('private.reason_of_change', coalesce(private.read_reason(new.reason_of_change), ''), true);
  new.reason_of_change := null;
  -- A change of the stock or of sold_out_until alone is no edit, so that neither conflicts with a staff member's edit.
  old.stock_quantity := new.stock_quantity;
  old.sold_out_until := new.sold_out_until;
  -- Generated columns are computed after this.
  old.is_low_on_stock := new.is_low_on_stock;
  if old is not distinct from new then
    return new;
  end if;
  new := private.without_invisible_texts(new);
  new.brand := nullif(new.brand, '');
  perform private.add_brand(new.brand) where new.brand <> coalesce(old.brand, '');
  new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  -- A price that is not below the previous one ends the offer.
  if new.previous_price = old.previous_price and new.price <> old.price and new.price >= new.previous_price then
    new.previous_price := null;
  end if;
  return new;
end
$$;

create trigger products_before_change before insert or update on public.products
  for each row execute function private.before_product_change();

create function private.after_product_change() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  not_audited text[] := '{id,created_at,updated_at,stock_quantity,is_low_on_stock}';
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
  -- Orders change the stock alone.
  if (old.id, old.updated_at, old.sold_out_until) is distinct from (new.id, new.updated_at, new.sold_out_until) then
    if tg_op = 'UPDATE' then
      -- In the history of prices.
      not_audited := not_audited || 'price'::text;
      if old.category <> new.category and not exists (select from public.categories as c where c.name = old.category) then
        -- It was renamed, which is one change, and not one of each of its products.
        not_audited := not_audited || 'category'::text;
      end if;
    end if;
    perform private.audit_row(
      'product', coalesce(new.name, old.name),
      case when tg_op <> 'INSERT' then to_jsonb(old) - not_audited end,
      case when tg_op <> 'DELETE' then to_jsonb(new) - not_audited end
    );
  end if;
  return null;
end
$$;

create trigger products_after_change after insert or update or delete on public.products
  for each row execute function private.after_product_change();

create function private.before_category_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  new := private.without_invisible_texts(new);
  new.name := trim(regexp_replace(new.name, '\s+', ' ', 'g'));
  if tg_op = 'INSERT' then
    new.slug := coalesce(nullif(new.slug, ''), private.free_slug('categories', new.name));
    return new;
  end if;
  if old.name <> new.name then
    -- The foreign key updates its products in any order: lock them by id first, as orders do.
    perform from public.products as p where p.category = old.name order by p.id for update;
  end if;
  new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  return new;
end
$$;

create trigger categories_before_change before insert or update on public.categories
  for each row execute function private.before_category_change();

create function private.before_brand_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  new := private.without_invisible_texts(new);
  if tg_op = 'INSERT' then
    new.slug := coalesce(nullif(new.slug, ''), private.free_slug('brands', new.name));
    return new;
  end if;
  new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  return new;
end
$$;

create trigger brands_before_change before insert or update on public.brands
  for each row execute function private.before_brand_change();

create function private.before_settings_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  new := private.without_invisible_texts(new);
  if old.support_email is distinct from new.support_email and not private.is_email(new.support_email) then
    raise exception using
      errcode = 'check_violation',
      message = 'new row for relation "store_settings" violates the rule "the support address is an e-mail address"',
      constraint = 'the support address is an e-mail address';
  end if;
  -- Constraints run as the caller, who may call no private function.
  if not private.are_opening_hours(new.opening_hours) or not private.are_days_off(new.days_off) then
    raise exception using
      errcode = 'check_violation',
      message = 'new row for relation "store_settings" violates the rule "opening hours and days off are well-formed"',
      constraint = 'opening hours and days off are well-formed';
  end if;
  -- A pause of orders is no edit, so that it does not conflict with a staff member's edit.
  old.orders_pause_reason := new.orders_pause_reason;
  old.orders_paused_until := new.orders_paused_until;
  new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  return new;
end
$$;

create trigger store_settings_before_change before update on public.store_settings
  for each row execute function private.before_settings_change();

create function private.after_settings_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if old is distinct from new then
    perform pg_catalog.pg_notify('page_changes', '{"table": "store_settings"}');
  end if;
  perform private.record_price_change(null, null, old.delivery_fee, new.delivery_fee);
  -- The fee stands in the history of prices, a pause in its own.
  perform private.record_audit_event(
    'settings_changed', null,
    to_jsonb(old) - array['updated_at', 'delivery_fee', 'orders_pause_reason', 'orders_paused_until'],
    to_jsonb(new) - array['updated_at', 'delivery_fee', 'orders_pause_reason', 'orders_paused_until']
  );
  if (old.orders_pause_reason, old.orders_paused_until) is distinct from (new.orders_pause_reason, new.orders_paused_until) then
    insert into public.order_pauses (reason, paused_until, changed_by, changed_by_email)
    values (new.orders_pause_reason, new.orders_paused_until, auth.uid(), private.email_of(auth.uid()));
  end if;
  if new.refund_approval_above > old.refund_approval_above and auth.uid() is not null then
    insert into private.refund_limit_raises (raised_by, raised_by_email, raised_from, raised_to)
    values (auth.uid(), private.email_of(auth.uid()), old.refund_approval_above, new.refund_approval_above);
  end if;
  return null;
end
$$;

create trigger store_settings_after_change after update on public.store_settings
  for each row execute function private.after_settings_change();

-- Orders

create function private.before_order_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'DELETE' then
    perform private.count_held_units(old, null);
    delete from private.order_networks as k where k.order_id = old.id;
    return old;
  end if;
  if new.status <> 'cancelled' then
    new.cancel_reason := null;
    if old.status = 'cancelled' and not private.is_stated('undoes') then
      -- Staff deliver it after all.
      new.cancel_requested_at := null;
      new.cancel_declined_at := null;
      new.cancel_answer := null;
    end if;
  elsif old.status <> 'cancelled' and new.cancel_reason is null and auth.uid() is not null then
    -- Only staff have accounts; they may write no more than the status.
    new.cancel_reason := 'by_shop';
  end if;
  if (private.can_be_paid(old.payment_status) and new.payment_status = 'paid')
    or (old.payment_status = 'paid' and new.payment_status = 'paid' and old.status = 'cancelled' and new.status <> 'cancelled')
    or (private.has_money(old.payment_status) and new.payment_status = 'refunded')
    or (old.payment_status = 'needs_review' and old.status <> new.status
      and not private.is_before_work(new.status))
  then
    perform private.refuse_while_refund_is_open(new);
  end if;
  if private.has_cancel_request(old) and old.payment_status = new.payment_status and new.status not in (old.status, 'cancelled')
    and not private.is_stated('undoes')
  then
    perform private.refuse_before_answer();
  end if;
  if new.payment_status <> 'paid' and old.status <> new.status and private.has_left_shop(new.status) then
    perform private.check_handover(old, new);
  end if;
  -- An unpaid order that is handed over takes its units if it held none.
  if old.payment_status = new.payment_status and old.status <> new.status
    and (old.status = 'cancelled' or new.status = 'cancelled' or (new.payment_status = 'unpaid' and new.reserved_until is null))
  then
    new := private.move_units_with_status(old, new);
  end if;
  return new;
end
$$;

create trigger orders_before_change before update of status, payment_status or delete on public.orders
  for each row execute function private.before_order_change();

create function private.after_order_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.count_change(private.figures_of(old), private.figures_of(new));
  if tg_op = 'INSERT' then
    perform private.record_order_event(new.id, 'order_placed', case when new.source = 'storefront' then 'customer' else 'shop' end, jsonb_build_object(
      'total_amount', new.total_amount,
      'source', nullif(new.source, 'storefront'),
      'holds_no_units', case when new.payment_status = 'unpaid' and new.reserved_until is null then true end
    ));
    -- Callers and chats get the link at once, unless fee and day are agreed on first; a customer in the shop, as on the storefront, with a prompt.
    if new.source in ('call', 'whatsapp') and not new.awaits_agreement then
      perform private.queue_order_messages(new.id, 'order_received');
    end if;
    return null;
  elsif tg_op = 'DELETE' then
    delete from public.order_events as e where e.order_id = old.id;
    delete from public.outbox_messages as m where m.order_id = old.id;
    return null;
  end if;
  if private.has_money(old.payment_status) and new.payment_status = 'refunded' then
    perform private.record_refund_of_order(new);
  end if;
  if (old.status, old.payment_status) is distinct from (new.status, new.payment_status) then
    perform private.queue_messages_of_order(old, new);
    perform private.notify_order_followers(new.id);
  end if;
  perform private.record_order_events(old, new);
  if (old.status <> new.status or private.is_called_off(old) <> private.is_called_off(new))
    and not private.is_stated('undoes')
  then
    perform private.move_delivery_with_order(old, new);
  end if;
  -- Last: orders of the same products wait for these counters until the transaction ends.
  if (old.status, old.payment_status, old.reserved_until is null)
    is distinct from (new.status, new.payment_status, new.reserved_until is null)
  then
    perform private.count_held_units(old, new);
  end if;
  return null;
end
$$;

create trigger orders_after_change after insert or update or delete on public.orders
  for each row execute function private.after_order_change();

-- Payments and refunds

create function private.before_payment_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if new.purpose = 'test' then
    return new;
  end if;
  if tg_op = 'INSERT' and new.status = 'initiating' and new.method = 'prompt' then
    perform private.refuse_prompt_in_pause();
  end if;
  if new.receipt is not null then
    new := private.move_refund_with_receipt(new);
  end if;
  return new;
end
$$;

create trigger payments_before_change before insert or update of receipt on public.payments
  for each row execute function private.before_payment_change();

create function private.after_payment_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.count_change(private.figures_of(old), private.figures_of(new));
  if tg_op = 'DELETE' then
    return null;
  end if;
  -- A test pays no order; it only proves that prompts work.
  if new.purpose = 'test' then
    if tg_op = 'UPDATE' and old.status <> new.status and new.status = 'completed' then
      perform private.end_prompt_pause();
    elsif tg_op = 'UPDATE' and old.checkout_request_id is null and new.checkout_request_id is not null then
      perform private.end_refusal_pause();
    end if;
    return null;
  end if;
  if tg_op = 'INSERT' then
    if new.method = 'prompt' and new.status = 'initiating' then
      perform private.queue_link_with_prompt(new);
    end if;
    if private.is_open_attempt(new.status) then
      perform private.notify_order_followers(new.order_id);
    end if;
    perform private.record_payment_events(null, new);
    return null;
  end if;
  if new.method = 'prompt' and (
    (old.status <> new.status and private.has_result(new.status))
    or (old.checkout_request_id is null and new.checkout_request_id is not null)
  ) then
    perform private.pause_prompts(new);
  end if;
  if new.refunded_at is not null and (old.refunded_at is null or (old.needs_refund and not new.needs_refund)) then
    perform private.refund_order_of_payment(new);
  end if;
  if old.refunded_at is distinct from new.refunded_at or (old.status <> new.status and (
    old.status in ('review', 'unresolved') or new.status in ('review', 'unresolved', 'failed') or new.needs_refund
  )) then
    perform private.notify_order_followers(new.order_id);
  end if;
  perform private.record_payment_events(old, new);
  return null;
end
$$;

-- Two triggers, which fire in the order of their names. The first also fires when an update sets the same receipt again: a
-- transaction with this receipt may have arrived in the meantime.
create trigger payments_after_receipt after insert or update of receipt on public.payments
  for each row
  when (new.receipt is not null)
  execute function private.link_transaction();
create trigger payments_after_status_change after insert or update or delete on public.payments
  for each row execute function private.after_payment_change();

create function private.after_refund_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.count_change(private.figures_of(old), private.figures_of(new));
  if tg_op = 'DELETE' then
    return null;
  end if;
  -- A refund that got its payment later has been recorded.
  if tg_op = 'UPDATE' and old.payment_id is distinct from new.payment_id then
    return null;
  end if;
  if tg_op = 'INSERT' then
    perform private.record_refund_in_reconciliation(new);
  end if;
  if new.payment_id is not null then
    perform private.notify_order_followers(p.order_id) from public.payments as p where p.id = new.payment_id;
  end if;
  perform private.record_refund_events(old, new);
  if old.status <> new.status and private.is_dropped_refund(new.status) then
    perform private.reopen_transaction_of_refund(new);
  end if;
  return null;
end
$$;

create trigger refunds_after_change after insert or update of status, payment_id or delete on public.refunds
  for each row execute function private.after_refund_change();

-- Deliveries

create trigger deliveries_before_change before insert or update on public.deliveries
  for each row execute function private.before_delivery_change();

create function private.after_delivery_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if coalesce(old.failures, 0) <> new.failures then
    perform private.count_change(
      null, (private.nairobi_day(now()), 0, 0, 0, new.failures - coalesce(old.failures, 0))::private.day_figures
    );
  end if;
  perform private.record_delivery_events(old, new);
  perform private.queue_job_for_rider(old, new);
  if old.delivery_status is distinct from new.delivery_status and not private.is_stated('undoes') then
    perform private.move_order_with_delivery(old, new);
    perform private.queue_messages_of_delivery(old, new);
    perform private.note_failed_delivery(old, new);
  end if;
  -- Its page names the rider.
  if private.is_with_rider(new.delivery_status)
    and (old.delivery_person, old.delivery_phone) is distinct from (new.delivery_person, new.delivery_phone)
  then
    perform private.notify_order_followers(new.order_id);
  end if;
  return null;
end
$$;

create trigger deliveries_after_change after insert or update on public.deliveries
  for each row execute function private.after_delivery_change();

-- Inquiries

create function private.after_inquiry_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'INSERT' then
    perform private.add_notice('inquiry', new.id::text);
  else
    perform private.forget_answers(old.id);
  end if;
  return null;
end
$$;

create trigger inquiries_after_change after insert or delete on public.inquiries
  for each row execute function private.after_inquiry_change();

-- Message templates

create trigger message_templates_before_change before insert or update on public.message_templates
  for each row execute function private.check_message_template();
