create or replace function private.record_order_event(order_id uuid, kind text, otherwise text, details jsonb default '{}') returns void
language plpgsql set search_path = '' as $$
declare
  member uuid := (select a.user_id from public.admin_profiles as a where a.user_id = (select auth.uid()));
begin
  insert into public.order_events (order_id, kind, actor, actor_id, actor_email, details)
  values (
    order_id, kind, case when member is null then otherwise else 'staff' end, member, private.email_of(member),
    jsonb_strip_nulls(details || case
      when current_setting('private.is_undoing', true) = 'yes' then '{"reason": "undone"}'
      when current_setting('private.although_unpaid', true) = 'yes' and kind = 'status_changed'
        then '{"although_unpaid": true}'
      else '{}'
    end::jsonb)
  );
end
$$;

comment on function private.record_order_event is
  'Appends to an order''s timeline. The actor is the calling staff member, else otherwise.';

create or replace function private.record_payment_events(old public.payments, new public.payments) returns void
language plpgsql set search_path = '' as $$
declare
  payment jsonb := jsonb_build_object(
    'payment_id', new.id, 'phone', nullif(new.phone, ''), 'charge_cents', new.charge_cents,
    'method', case when new.method <> 'prompt' then new.method end
  );
  result jsonb := payment || jsonb_build_object(
    'result_code', new.result_code, 'result_description', new.result_description, 'receipt', new.receipt
  );
begin
  if old.id is null then
    -- Recorded when it is settled, in the same transaction.
    if new.method = 'till' then
      return;
    end if;
    perform private.record_order_event(new.order_id, 'payment_prompted', 'customer', payment);
  elsif old.status = new.status then
    if new.status = 'completed' and old.receipt is null and new.receipt is not null then
      perform private.record_order_event(new.order_id, 'payment_receipt_known', 'mpesa', result);
    end if;
    return;
  end if;
  if new.status not in ('initiating', 'processing') then
    perform private.record_order_event(
      new.order_id, 'payment_' || case new.status when 'review' then 'in_review' else new.status end,
      case new.status when 'unresolved' then 'shop' else 'mpesa' end,
      result || jsonb_build_object('needs_refund', case when new.status = 'completed' and new.needs_refund then true end)
    );
  end if;
end
$$;
