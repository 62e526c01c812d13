create type private.day_figures as (day date, orders bigint, revenue_cents bigint, received_cents bigint);

drop trigger orders_after_insert on public.orders;

drop trigger payments_after_insert on public.payments;

drop function private.add_to_day(timestamp with time zone,bigint,bigint,bigint);

drop function private.after_orders_added();

drop function private.after_payments_added();

drop function private.count_order(orders,orders);

drop function private.count_payment(payments,payments);

drop function private.count_refund(refunds,refunds);

drop function private.is_for_order(uuid);

drop function private.move_received(bigint,timestamp with time zone,bigint,timestamp with time zone);

create or replace function private.figures_of(counted public.orders) returns private.day_figures
language sql immutable set search_path = ''
return case when counted.id is not null then
  (private.nairobi_day(counted.created_at), 1, counted.total_amount, 0)::private.day_figures
end;

create or replace function private.figures_of(counted public.payments) returns private.day_figures
language sql immutable set search_path = ''
return case when counted.status = 'completed' and counted.purpose = 'order' then
  (coalesce(private.nairobi_day(counted.completed_at), '-infinity'), 0, 0, counted.charge_cents)::private.day_figures
end;

create or replace function private.figures_of(counted public.refunds) returns private.day_figures
language sql stable set search_path = ''
return case
  -- A refund may move to a payment that is just being added.
  when counted.status = 'completed' and counted.payment_id is not null
    and not exists (select from public.payments as p where p.id = counted.payment_id and p.purpose = 'test')
  then (coalesce(private.nairobi_day(counted.completed_at), '-infinity'), 0, 0, -counted.refund_cents)::private.day_figures
end;

create or replace function private.count_change(old private.day_figures, new private.day_figures) returns void
language plpgsql set search_path = '' set enable_seqscan = off as $$
declare
  moved private.day_figures;
begin
  if old is not distinct from new then
    return;
  end if;
  foreach moved in array array[(old.day, -old.orders, -old.revenue_cents, -old.received_cents)::private.day_figures, new] loop
    continue when moved.day is null;
    update private.daily_totals as t
    set orders = t.orders + moved.orders,
        revenue_cents = t.revenue_cents + moved.revenue_cents,
        received_cents = t.received_cents + moved.received_cents
    where t.id = (select free.id from private.daily_totals as free where free.day = moved.day limit 1 for update skip locked);
    if not found then
      insert into private.daily_totals (day, orders, revenue_cents, received_cents)
      values (moved.day, moved.orders, moved.revenue_cents, moved.received_cents);
    end if;
  end loop;
end
$$;

comment on function private.count_change is
  'Replaces what a row counts in daily_totals; null: nothing. Never waits for another transaction.';

create or replace function private.after_order_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.count_change(private.figures_of(old), private.figures_of(new));
  if tg_op = 'INSERT' then
    perform private.record_order_events(null, new);
    return null;
  elsif tg_op = 'DELETE' then
    delete from public.order_events as e where e.order_id = old.id;
    delete from public.outbox_messages as m where m.order_id = old.id;
    return null;
  end if;
  if (old.status, old.payment_status, old.reserved_until is null)
    is distinct from (new.status, new.payment_status, new.reserved_until is null)
  then
    perform private.count_held_units(old, new);
  end if;
  if old.payment_status in ('paid', 'needs_review') and new.payment_status = 'refunded' then
    perform private.record_refund_of_order(new);
  end if;
  if (old.status, old.payment_status) is distinct from (new.status, new.payment_status) then
    perform private.queue_messages_of_order(old, new);
    perform private.notify_order_followers(new.id);
  end if;
  perform private.record_order_events(old, new);
  if old.status <> new.status and current_setting('private.is_undoing', true) is distinct from 'yes' then
    perform private.move_delivery_with_order(old, new);
  end if;
  return null;
end
$$;

create or replace function private.after_payment_change() returns trigger
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
    end if;
    return null;
  end if;
  if tg_op = 'INSERT' then
    if new.method = 'prompt' and new.status = 'initiating' then
      perform private.queue_link_with_prompt(new);
    end if;
    if new.status in ('initiating', 'processing') then
      perform private.notify_order_followers(new.order_id);
    end if;
    perform private.record_payment_events(null, new);
    return null;
  end if;
  if old.status <> new.status and new.method = 'prompt' and new.status in ('completed', 'failed') then
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

create or replace function private.after_refund_change() returns trigger
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
  if old.status <> new.status and new.status in ('failed', 'withdrawn') then
    perform private.reopen_transaction_of_refund(new);
  end if;
  return null;
end
$$;
