-- Writes of staff whose answer was lost: whether they were saved can be asked, and one that was not saved never will be.

create table private.staff_writes (
  id uuid primary key,
  is_withdrawn boolean not null default false,
  answer jsonb,
  written_at timestamptz not null default now()
);
comment on table private.staff_writes is
  'Requests of staff that wrote something, by the header x-write-id, for an hour. is_withdrawn: settle_write came first, so that the request is refused. answer: what the procedure returned, where the screen needs it.';
alter table private.staff_writes enable row level security;
create index staff_writes_by_time on private.staff_writes (written_at);

create function private.write_id() returns uuid
language plpgsql stable set search_path = '' as $$
declare
  sent text := nullif(current_setting('request.headers', true), '')::jsonb ->> 'x-write-id';
begin
  return case when sent ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then sent::uuid end;
end
$$;
comment on function private.write_id is 'The id that the panel gave to this request. Null: none.';

create function private.record_staff_write() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  write_id uuid := private.write_id();
begin
  if write_id is null or not public.is_admin() then
    return null;
  end if;
  insert into private.staff_writes (id) values (write_id) on conflict do nothing;
  if found then
    delete from private.staff_writes as w where w.id in (
      select past.id from private.staff_writes as past
      where past.written_at < now() - interval '1 hour' order by past.written_at limit 20 for update skip locked
    );
  elsif (select w.is_withdrawn from private.staff_writes as w where w.id = write_id) then
    perform private.refuse(409, 'write_withdrawn', 'The connection broke before this was saved. Please try again');
  end if;
  return null;
end
$$;
comment on function private.record_staff_write is
  'Records the request of a staff member that writes to a table, once; refuses one that settle_write has withdrawn.';

create function private.note_answer(answer jsonb) returns void
language sql volatile set search_path = '' as $$
  update private.staff_writes as w set answer = note_answer.answer where w.id = private.write_id();
$$;
comment on function private.note_answer is 'Keeps the answer of a procedure for settle_write.';

create function public.settle_write(write_id uuid) returns table (is_saved boolean, answer jsonb)
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform private.expect_staff('panel');
  -- Waits for the request if it is still running.
  insert into private.staff_writes (id, is_withdrawn) values (settle_write.write_id, true) on conflict do nothing;
  return query select not w.is_withdrawn, w.answer from private.staff_writes as w where w.id = settle_write.write_id;
end
$$;
comment on function public.settle_write is
  'For staff: whether a request whose answer was lost was saved, by its x-write-id. If not, it is withdrawn: it is refused should it still arrive, so that it can be repeated safely. answer: what it returned, where that was kept. One row.';

-- Before each statement on a table that staff write, themselves or by a procedure.
create trigger orders_by_staff before insert or update or delete on public.orders for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();
create trigger deliveries_by_staff before insert or update or delete on public.deliveries for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();
create trigger payments_by_staff before insert or update or delete on public.payments for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();
create trigger refunds_by_staff before insert or update or delete on public.refunds for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();
create trigger mpesa_transactions_by_staff before insert or update or delete on public.mpesa_transactions for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();
create trigger reconciliation_events_by_staff before insert or update or delete on public.reconciliation_events for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();
create trigger products_by_staff before insert or update or delete on public.products for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();
create trigger categories_by_staff before insert or update or delete on public.categories for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();
create trigger discount_codes_by_staff before insert or update or delete on public.discount_codes for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();
create trigger delivery_areas_by_staff before insert or update or delete on public.delivery_areas for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();
create trigger search_synonyms_by_staff before insert or update or delete on public.search_synonyms for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();
create trigger store_settings_by_staff before insert or update or delete on public.store_settings for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();
create trigger shop_texts_by_staff before insert or update or delete on public.shop_texts for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();
create trigger message_templates_by_staff before insert or update or delete on public.message_templates for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();
create trigger outbox_messages_by_staff before insert or update or delete on public.outbox_messages for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();
create trigger inquiries_by_staff before insert or update or delete on public.inquiries for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();
create trigger push_subscriptions_by_staff before insert or update or delete on public.push_subscriptions for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();
create trigger inquiry_answers_by_staff before insert or update or delete on public.inquiry_answers for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();
create trigger reply_templates_by_staff before insert or update or delete on public.reply_templates for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();
create trigger prompt_pause_by_staff before insert or update or delete on private.prompt_pause for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();
create trigger ratings_by_staff before insert or update or delete on public.ratings for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();
create trigger brands_by_staff before insert or update or delete on public.brands for each statement
  when (current_setting('request.headers', true) like '%"x-write-id"%') execute function private.record_staff_write();

-- Execution rights
grant execute on function public.settle_write to authenticated, service_role;
