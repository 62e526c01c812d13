-- Live updates: notifications that clear cached pages, and tables that realtime publishes to staff screens.

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

create function private.announce_access_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'UPDATE' then
    if new.is_active or not old.is_active then
      return null;
    end if;
  end if;
  -- No details: screens query the services then. Only the account has its id, which names the topic.
  perform realtime.send('{}'::jsonb, 'access_changed', 'staff-' || old.user_id, false);
  return null;
end
$$;
comment on function private.announce_access_change is
  'Broadcasts access_changed on the live channel staff-{user_id} when a session of the account ended or it is no longer active staff.';

create trigger products_after_truncate after truncate on public.products
  for each statement execute function private.announce_page_change();
create trigger categories_after_change after update on public.categories
  for each row
  when ((old.name, old.is_active) is distinct from (new.name, new.is_active))
  execute function private.announce_page_change();
create trigger categories_after_statement after insert or delete or truncate on public.categories
  for each statement execute function private.announce_page_change();
create trigger store_settings_after_statement after insert or delete or truncate on public.store_settings
  for each statement execute function private.announce_page_change();
create trigger shop_texts_after_change after update on public.shop_texts
  for each row
  when (old.* is distinct from new.*)
  execute function private.announce_page_change();
create trigger shop_texts_after_statement after insert or delete or truncate on public.shop_texts
  for each statement execute function private.announce_page_change();
create trigger search_synonyms_after_statement after insert or update or delete or truncate on public.search_synonyms
  for each statement execute function private.announce_page_change();
create trigger profiles_after_change after update of is_active or delete on public.admin_profiles
  for each row execute function private.announce_access_change();
create trigger sessions_announce_their_end after delete on auth.sessions for each row execute function private.announce_access_change();

-- The realtime service checks this policy for sending to public topics, such as order-{id}: visitors only receive. Private topics
-- require the secret key.
create policy "Staff send broadcasts to public topics" on realtime.messages for insert to authenticated
with check (extension = 'broadcast' and not private and (select public.is_admin()));

alter publication supabase_realtime add table
  public.orders, public.inquiries, public.deliveries, public.payments, public.products, public.categories,
  public.store_settings, public.outbox_messages, public.message_templates, public.mpesa_transactions,
  public.statement_pulls, public.reconciliation_events, public.refunds, public.shop_texts, public.search_synonyms;
