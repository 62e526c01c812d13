-- Earlier versions keep working: they neither agree on cash nor read its columns, and show a payment in cash as one without a receipt.

alter table public.payments add column received_from text, add column note text;
comment on column public.payments.received_from is 'Who handed over the cash: the rider. Null: the customer, and for other methods.';
comment on column public.payments.note is 'Why cash differs from the charge of its order, or was taken back.';
comment on column public.payments.method is
  'prompt: a prompt for charge_cents was sent. till: money without a prompt, reported by staff or M-PESA; its phone is unknown (''''). cash: a staff member (confirmed_by) took it; failed: it was taken back.';
comment on column public.orders.payment_method is
  'How the order was paid. cash while it is unpaid: staff agreed with the customer on cash at the door. pending: not known yet.';

alter table public.store_settings
  add column takes_cash boolean not null default true,
  add column offers_cash boolean not null default false;
comment on column public.store_settings.takes_cash is 'Whether staff may agree on cash at the door and note cash.';
comment on column public.store_settings.offers_cash is
  'Whether customers may choose cash at the door themselves (choose_cash).';
grant update (takes_cash, offers_cash) on public.store_settings to authenticated;
grant select (offers_cash) on public.store_settings to anon, authenticated;

insert into private.limits (name, allowed, within, per_paid_order) values ('cash_orders', 10, '1 day', 0.5);

alter table public.order_events drop constraint "a kind of event is known";

alter table public.payments drop constraint "a payment method is known";

alter table public.refunds drop constraint "a refund by M-PESA has a receipt";

alter table public.refunds drop constraint "a refund goes by M-PESA or by hand";

alter table public.refunds drop constraint "a second staff member approves above the limit";

drop function public.count_work();

drop function private.work_step(text,text,deliveries);

alter table public.order_events add constraint "a kind of event is known" CHECK ((kind = ANY (ARRAY['order_placed'::text, 'items_changed'::text, 'status_changed'::text, 'payment_status_changed'::text, 'units_taken'::text, 'units_returned'::text, 'cash_agreed'::text, 'payment_prompted'::text, 'payment_completed'::text, 'payment_failed'::text, 'payment_in_review'::text, 'payment_unresolved'::text, 'payment_receipt_known'::text, 'payment_corrected'::text, 'payment_taken_back'::text, 'delivery_made'::text, 'delivery_assigned'::text, 'delivery_status_changed'::text, 'delivery_taken'::text, 'delivery_ready'::text, 'delivery_unpacked'::text, 'refund_requested'::text, 'refund_approved'::text, 'refund_withdrawn'::text, 'refund_sent'::text, 'refund_unknown'::text, 'refund_failed'::text, 'refund_completed'::text, 'refund_sent_twice'::text, 'refund_sent_twice_seen'::text])));

alter table public.payments add constraint "a payment method is known" CHECK ((method = ANY (ARRAY['prompt'::text, 'till'::text, 'cash'::text])));

alter table public.refunds add constraint "a refund by M-PESA has a receipt" CHECK (((method <> 'reversal'::text) OR (receipt IS NOT NULL)));

alter table public.refunds add constraint "a second staff member approves above the limit" CHECK (((method <> 'reversal'::text) OR (NOT needs_approval) OR (status = ANY (ARRAY['requested'::text, 'withdrawn'::text])) OR ((approved_by IS NOT NULL) AND (requested_by IS NOT NULL) AND (approved_by <> requested_by))));

alter table public.orders add constraint "a payment method of an order is known" CHECK ((payment_method = ANY (ARRAY['pending'::text, 'mpesa'::text, 'cash'::text])));

alter table public.payments add constraint "cash has no receipt, and a staff member took it" CHECK (((method <> 'cash'::text) OR ((receipt IS NULL) AND (phone = ''::text) AND (purpose = 'order'::text) AND (confirmed_by IS NOT NULL) AND (status = ANY (ARRAY['completed'::text, 'failed'::text])))));

alter table public.payments add constraint "only cash is received from somebody" CHECK (((method = 'cash'::text) OR (received_from IS NULL)));

alter table public.refunds add constraint "a refund goes by M-PESA, by hand or in cash" CHECK ((method = ANY (ARRAY['reversal'::text, 'by_hand'::text, 'cash'::text])));

alter table public.store_settings add constraint "cash is offered only where it is taken" CHECK ((takes_cash OR (NOT offers_cash)));

create or replace function private.is_to_deliver(payment_status text, payment_method text) returns boolean
language sql immutable
return payment_status = 'paid' or (payment_status = 'unpaid' and payment_method = 'cash');

comment on function private.is_to_deliver is 'The order is paid, or is paid in cash at the door: staff prepare and deliver it.';

create or replace function private.due_end(ended public.orders) returns text
language plpgsql stable set search_path = '' as $$
declare
  is_prompted boolean;
begin
  -- Cash is paid at the door, whatever status staff set until then.
  if ended.payment_status <> 'unpaid' or not private.is_before_work(ended.status)
    or (ended.payment_method = 'cash' and ended.status <> 'cancelled')
  then
    return null;
  end if;
  if exists (select from public.payments as p where p.order_id = ended.id and p.status = 'review') then
    return null;
  end if;
  is_prompted := coalesce(ended.expiry_limit > now(), true) and exists (
    select from public.payments as p where p.order_id = ended.id and private.is_open_attempt(p.status)
  );
  return case
    when not is_prompted and (ended.expires_at <= now() or (ended.status = 'cancelled' and ended.reserved_until is not null)) then 'order'
    when ended.reserved_until <= now() then 'units'
  end;
end
$$;

comment on function private.due_end is
  'What ends now. order: the unpaid order, at expires_at; an open prompt delays that until expiry_limit. units: its hold, at reserved_until, also while a prompt is open. Null: nothing. A payment under review delays both.';

create or replace function private.reserve_for_prompt(order_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  product_ids uuid[];
  waiting public.orders;
  extended_until timestamptz;
  item record;
  networks text[];
  settings public.store_settings;
  held_until timestamptz;
  may_hold boolean := true;
begin
  select * into waiting from public.orders as o where o.id = reserve_for_prompt.order_id for no key update;
  -- An unpaid order that was handed over, or is paid at the door, has already taken its units.
  if not found or waiting.payment_status <> 'unpaid' or waiting.status <> 'pending' or waiting.payment_method = 'cash' then
    return;
  end if;
  extended_until := least(now() + private.prompt_hold(), waiting.expiry_limit);
  if waiting.extended_at is null and waiting.expires_at < extended_until then
    if waiting.reserved_until is not null and private.extend_counted_hold(waiting.id, extended_until) then
      waiting.reserved_until := extended_until;
    end if;
    update public.orders as o
    set expires_at = extended_until, reserved_until = waiting.reserved_until, extended_at = now()
    where o.id = waiting.id
    returning * into waiting;
  end if;
  if waiting.expires_at <= now() then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  elsif waiting.reserved_until is not null then
    return;
  end if;

  held_until := least(now() + private.prompt_hold(), waiting.expires_at);
  select coalesce(array_agg(k.network), '{}') into networks from private.order_networks as k where k.order_id = waiting.id;
  product_ids := array(select i.product_id from public.order_items as i where i.order_id = waiting.id);
  select * into strict settings from public.store_settings;
  perform from public.products as p where p.id = any (product_ids) order by p.id for no key update;
  for item in
    select p.id as product_id, i.product_name, p.stock_quantity as units_left, i.quantity,
      p.stock_quantity + private.units_held(p.id) as units
    from public.order_items as i
    left join lateral (select * from public.products as p where p.id = i.product_id and p.is_active offset 0) as p on true
    where i.order_id = waiting.id
  loop
    perform private.refuse_missing_units(case when cardinality(product_ids) > 1 then item.product_name end, item.units_left, item.quantity);
    may_hold := may_hold and (
      cardinality(networks) = 0
      or private.is_within_hold_time(networks, item.product_id, item.quantity, item.units, held_until - now(), true, settings)
    );
  end loop;
  -- Beyond that the prompt is sent without a hold, so that others in the same network cannot block a payment. If the units are sold
  -- before the money arrives, the order needs review as with late money.
  if may_hold then
    update public.orders as o set reserved_until = held_until where o.id = waiting.id;
    perform private.hold_units(waiting.id, networks, held_until, true);
  end if;
end
$$;

comment on function private.reserve_for_prompt is
  'Before a prompt for an unpaid order: holds its units for five minutes if it holds none, and moves its expiry once to five minutes from now. Refuses (product_unavailable, out_of_stock, not_enough_stock, order_cancelled) if it cannot be paid any more.';

create or replace function public.order_receipt(tracking_number text, access_key text default null, phone_last_four text default null)
returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
declare
  opened record;
  receipt_of public.orders;
begin
  select * into opened
  from private.open_order(order_receipt.tracking_number, order_receipt.access_key, order_receipt.phone_last_four);
  receipt_of := opened.found_order;
  if opened.refusal is not null then
    return opened.refusal;
  end if;
  if receipt_of.id is null then
    return null;
  end if;
  if opened.is_by_order_number and not opened.is_open then
    return private.describe_by_order_number(receipt_of);
  elsif not opened.is_open then
    return jsonb_build_object('tracking_number', receipt_of.tracking_number, 'is_masked', true);
  end if;
  return private.describe_order(receipt_of, true) - 'delivery_notes' || jsonb_build_object(
    'order_number', receipt_of.order_number,
    'order_items', coalesce((
      select jsonb_agg(
        jsonb_build_object('id', i.id, 'name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
        order by i.position
      )
      from public.order_items as i where i.order_id = receipt_of.id
    ), '[]'::jsonb),
    'payments', coalesce((
      select jsonb_agg(
        jsonb_build_object(
          'id', p.id, 'charge_cents', p.charge_cents, 'receipt', p.receipt, 'completed_at', p.completed_at,
          'method', p.method, 'is_surplus', p.needs_refund, 'refunded_at', p.refunded_at, 'refund_receipt', p.refund_receipt
        )
        order by p.completed_at, p.id
      )
      from public.payments as p where p.order_id = receipt_of.id and p.status = 'completed'
    ), '[]'::jsonb)
  );
end
$$;

comment on function public.order_receipt is
  'With proof: what track_order shows, and every completed payment. Without proof: only that the order exists. Null: no such order.';

create or replace function private.order_facts(described public.orders, is_open boolean) returns jsonb
language plpgsql stable set search_path = '' as $$
#variable_conflict use_column
declare
  answer jsonb;
  doubt text;
begin
  answer := jsonb_build_object(
    'tracking_number', described.tracking_number, 'live_handle', described.live_handle,
    'status', private.shown_status(described.status), 'payment_status', described.payment_status,
    'updated_at', described.updated_at
  );
  -- Public: whether the order is paid and whether staff check a payment. Not public: the amount.
  if described.payment_status = 'unpaid' then
    select case
      when bool_or(p.status = 'review') then 'review'
      -- The money of an unpaid order was being refunded already when it was matched to the order.
      when bool_or(p.status = 'completed' and p.refunded_at is null) then 'goes_back'
      when bool_or(private.is_open_attempt(p.status)) then 'prompted'
      when (array_agg(p.status order by p.created_at desc))[1] = 'unresolved' then 'unresolved'
    end into doubt
    from public.payments as p
    where p.order_id = described.id;
    if doubt is not null then
      answer := answer || jsonb_build_object('payment_check', doubt);
    end if;
  elsif private.has_money(described.payment_status) and exists (
    select from public.payments as p
    join public.refunds as r on r.payment_id = p.id
    where p.order_id = described.id and not p.needs_refund and private.is_open_refund(r.status) and r.status <> 'requested'
  ) then
    answer := answer || '{"is_refunding": true}';
  end if;
  if described.payment_method = 'cash' then
    answer := answer || '{"pays_cash": true}';
  end if;
  if described.status = 'cancelled' then
    answer := answer || jsonb_strip_nulls(jsonb_build_object('cancelled_because', nullif(described.cancel_reason, 'refunded')));
  end if;
  if is_open or described.created_at >= now() - interval '30 days' then
    answer := answer || jsonb_build_object('total_amount', described.total_amount);
  end if;
  if not is_open then
    return answer;
  end if;

  if described.payment_status = 'unpaid' and described.status = 'pending' then
    answer := answer || jsonb_build_object('reserved_until', described.reserved_until, 'expires_at', described.expires_at);
  elsif described.payment_status <> 'unpaid' then
    select answer || jsonb_strip_nulls(jsonb_build_object(
      'paid_cents', sum(p.charge_cents) filter (where not p.needs_refund),
      'refunded_cents', sum(p.charge_cents) filter (where not p.needs_refund and p.refunded_at is not null),
      'surplus_cents', sum(p.charge_cents) filter (where p.needs_refund and p.refunded_at is null)
    )) into answer
    from public.payments as p
    where p.order_id = described.id and p.status = 'completed';
  end if;
  -- Partial payments under the order's number: shown only with proof, because anyone can send one.
  return answer || jsonb_strip_nulls(jsonb_build_object('part_paid_cents', (
    select sum(t.received_cents) from public.mpesa_transactions as t
    where t.order_id = described.id and t.payment_id is null and t.resolution is null
  )));
end
$$;

comment on function private.order_facts is
  'Facts about an order''s state that web/lib/orders/order-meaning.ts reads. With proof (is_open) also reserved_until, expires_at, paid_cents, refunded_cents (the part of it that was sent back), surplus_cents (paid beyond the charge, to be refunded) and part_paid_cents.';

-- Execution rights
grant execute on function public.track_order, public.order_receipt, public.orders_by_access_key
  to anon, authenticated, service_role;

create or replace function private.set_order_paid(paid_order public.orders, payment_method text) returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_variable
begin
  update public.orders as o
  set payment_status = 'paid', payment_method = set_order_paid.payment_method,
      status = case when private.is_before_work(o.status) then 'processing' else o.status end,
      reserved_until = null, updated_at = now()
  where o.id = paid_order.id;
  -- The promise of the delivery time counts from the payment, also where staff assigned a rider before it; with cash at the door, from
  -- the agreement on it.
  insert into public.deliveries (order_id) values (paid_order.id)
  on conflict on constraint "an order is delivered once" do update set created_at = excluded.created_at
  where paid_order.payment_method <> 'cash';
  perform private.note_paid_order(paid_order.id);
end
$$;

comment on function private.set_order_paid is
  'Marks an order as paid, as it was before, and creates its delivery. The caller has locked the order, which has its units.';

create or replace function private.mark_order_paid(order_id uuid) returns text
language plpgsql set search_path = '' as $$
declare
  paid_order public.orders;
  needs_review boolean := false;
begin
  select * into strict paid_order from public.orders as o where o.id = mark_order_paid.order_id;
  -- Another amount than the charge needs review; such an order holds no units.
  if paid_order.payment_status = 'unpaid' and exists (
    select from public.payments as p
    where p.order_id = paid_order.id and p.status = 'completed' and not p.needs_refund
      and p.charge_cents <> paid_order.charge_cents
  ) then
    if paid_order.reserved_until is not null then
      perform private.return_units(paid_order.id, 'under_review');
    end if;
    -- Of an order that was to be paid in cash.
    delete from public.deliveries as d where d.order_id = paid_order.id;
    needs_review := true;
  elsif paid_order.reserved_until is null then
    -- Late money: the units were returned. They are taken again, unless too few are left or a product was deleted.
    needs_review := not exists (
      select from public.order_items as i where i.order_id = paid_order.id having bool_and(i.product_id is not null)
    ) or not private.take_units(paid_order.id);
  end if;
  if needs_review then
    update public.orders as o
    set payment_status = 'needs_review', payment_method = 'mpesa', reserved_until = null, updated_at = now()
    where o.id = paid_order.id;
    return 'paid_needs_review';
  end if;
  perform private.set_order_paid(paid_order, 'mpesa');
  return 'paid';
end
$$;

comment on function private.mark_order_paid is
  'Marks an order as paid and creates its delivery, or puts it under review: another amount than the charge, or too few units left. Returns the outcome: paid or paid_needs_review. The caller has locked the order.';

create or replace function public.request_refund(
  reason text, payment_id uuid default null, receipt text default null, is_sure boolean default false
) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member();
  paid public.payments;
  reported public.mpesa_transactions;
begin
  if request_refund.payment_id is null then
    reported := private.lock_refundable_transaction(request_refund.receipt, request_refund.is_sure);
    return private.open_refund(
      null, reported.receipt, reported.receipt, reported.received_cents, request_refund.reason, member
    );
  end if;
  paid := private.lock_refundable_payment(request_refund.payment_id);
  if paid.method = 'cash' then
    perform private.refuse(409, 'cash_goes_back_in_cash', 'This was paid in cash, which M-PESA cannot send back. Give it back, and note it');
  elsif paid.receipt is null then
    perform private.refuse(409, 'receipt_unknown',
      'M-PESA has not reported the receipt of this payment yet. Without it the money can only be sent back by hand');
  end if;
  if exists (select from public.change_notes as c where c.payment_id = paid.id and c.kind = 'returned') then
    perform private.refuse(409, 'partly_returned',
      'Part of this money went back outside the shop, and M-PESA reverses whole payments only. Send the rest back by hand and note it');
  end if;
  -- Staff may have typed the amount: at most the amount that M-PESA reported for the receipt is refunded.
  select * into reported from public.mpesa_transactions as t where t.receipt = paid.receipt;
  if reported.received_cents < paid.charge_cents then
    perform private.refuse(409, 'amount_differs',
      'M-PESA reported less money under this receipt than was entered. Please look at it in Reconciliation');
  end if;
  return private.open_refund(paid.id, null, paid.receipt, paid.charge_cents, request_refund.reason, member);
end
$$;

comment on function public.request_refund is
  'Requests the full refund by M-PESA of a payment, or of unassigned money by its receipt. Above the refund limit it waits for a second staff member. Money that may be an order''s, whose prompt lacks a receipt, is refunded only when is_sure.';

-- Execution rights
grant execute on function public.request_refund, public.approve_refund, public.withdraw_refund to authenticated;

-- Cash: orders that are paid at the door or the counter (docs/decisions/cash.md).

create or replace function private.lock_order_for_cash(order_id uuid) returns public.orders
language plpgsql set search_path = '' as $$
declare
  ordered public.orders;
begin
  -- The lock on the order's row serialises this with its payments and its expiry.
  select * into ordered from public.orders as o where o.id = lock_order_for_cash.order_id for no key update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  elsif ordered.payment_status = 'needs_review' then
    perform private.refuse(409, 'decide_order', 'Decide what happens to the order of this money');
  elsif ordered.payment_status <> 'unpaid' then
    perform private.refuse(409, 'order_already_paid', 'This order is already paid');
  elsif ordered.status = 'cancelled' or (private.is_before_work(ordered.status) and ordered.payment_method <> 'cash' and ordered.expires_at <= now()) then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  elsif exists (select from public.payments as p where p.order_id = ordered.id and private.is_unsettled_attempt(p.status)) then
    perform private.refuse(409, 'payment_open', 'A payment by M-PESA is open for this order. Wait until it has ended, so that it is not paid twice');
  elsif exists (
    select from public.mpesa_transactions as t where t.order_id = ordered.id and t.payment_id is null and t.resolution is null
  ) then
    perform private.refuse(409, 'money_waiting', 'Money for this order has come to the till. Decide about it in Reconciliation first');
  end if;
  return ordered;
end
$$;

comment on function private.lock_order_for_cash is 'Locks an order that can be paid in cash. Refuses others.';

create or replace function private.deliver_for_cash(ordered public.orders, agreed_by text) returns void
language plpgsql set search_path = '' as $$
begin
  -- The order holds its units from now on, as one that was handed over unpaid: it does not expire any more.
  update public.orders as o
  set payment_method = 'cash', status = case when o.status = 'pending' then 'processing' else o.status end, updated_at = now()
  where o.id = ordered.id;
  insert into public.deliveries (order_id) values (ordered.id) on conflict on constraint "an order is delivered once" do nothing;
  perform private.record_order_event(
    ordered.id, 'cash_agreed', deliver_for_cash.agreed_by, jsonb_build_object('charge_cents', ordered.charge_cents)
  );
end
$$;

create or replace function public.agree_cash(order_id uuid) returns void
language plpgsql security definer set search_path = '' as $$
declare
  ordered public.orders;
begin
  perform private.expect_staff();
  if not (select s.takes_cash from public.store_settings as s) then
    perform private.refuse(409, 'cash_not_taken', 'The shop takes no cash. Settings, Payments can change that');
  end if;
  ordered := private.lock_order_for_cash(agree_cash.order_id);
  if ordered.payment_method <> 'cash' then
    perform private.deliver_for_cash(ordered, 'staff');
  end if;
end
$$;

comment on function public.agree_cash is
  'For staff: the customer pays an unpaid order in cash at the door. It goes into work, has a delivery, and does not expire any more. Repeating it changes nothing.';

create or replace function public.choose_cash(order_id uuid, access_key text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  ordered public.orders;
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := private.count_call('cash_orders');
  refusal_details text;
  refusal_hint text;
begin
  if not (select s.offers_cash from public.store_settings as s) then
    perform private.refuse(409, 'cash_not_taken', 'We take no cash at the door at the moment. Please pay by M-PESA');
  elsif not exists (
    select from private.order_keys as k where k.order_id = choose_cash.order_id and k.access_key = choose_cash.access_key
  ) then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  ordered := private.lock_order_for_cash(choose_cash.order_id);
  if ordered.payment_method = 'cash' then
    return private.placed_order(ordered, choose_cash.access_key);
  end if;
  -- Nothing is paid before the rider stands at the door: a stranger could send riders around. One phone has one such order at a time,
  -- unless it has paid before.
  if not private.has_paid(ordered.customer_phone) and (
    not is_within_limit or exists (
      select from public.orders as o
      where private.is_open_order(o.status) and o.payment_status = 'unpaid' and o.payment_method = 'cash'
        and o.customer_phone = ordered.customer_phone
    )
  ) then
    perform private.refuse(429, 'too_many_cash_orders', format(
      'Another order of this phone or network is paid in cash already. Please pay this one by M-PESA, or call or WhatsApp us on %s',
      private.contact_numbers()
    ));
  end if;
  perform private.deliver_for_cash(ordered, 'customer');
  perform private.add_notice('paid_order', ordered.id::text, ordered.id);
  select * into ordered from public.orders as o where o.id = ordered.id;
  return private.placed_order(ordered, choose_cash.access_key);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  return private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
end
$$;

comment on function public.choose_cash is
  'A customer pays in cash at the door, where the settings offer it (store_settings.offers_cash). Proof: the order''s access key. Answers as place_order.';

create or replace function public.receive_cash(
  order_id uuid, received_cents integer, received_from text default null, difference text default null, note text default null
) returns public.payments
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  person text := private.visible_text(receive_cash.received_from);
  reason text := private.read_reason(receive_cash.note);
  ordered public.orders;
  received public.payments;
begin
  if private.is_whole_shillings(receive_cash.received_cents) is not true then
    perform private.refuse(400, 'amount_invalid', 'The amount must be in whole shillings');
  elsif char_length(person) > 120 then
    perform private.refuse(400, 'rider_too_long', 'The name of the person is longer than 120 characters');
  elsif not (select s.takes_cash from public.store_settings as s) then
    perform private.refuse(409, 'cash_not_taken', 'The shop takes no cash. Settings, Payments can change that');
  end if;
  ordered := private.lock_order_for_cash(receive_cash.order_id);
  -- A shortfall is forgiven, with the reason; a surplus is a tip, or owed to the customer.
  if receive_cash.received_cents < ordered.charge_cents and (receive_cash.difference is distinct from 'forgiven' or reason is null)
    or receive_cash.received_cents > ordered.charge_cents and coalesce(receive_cash.difference, '') not in ('tip', 'credit')
    or receive_cash.received_cents = ordered.charge_cents and receive_cash.difference is not null
  then
    perform private.refuse(409, 'cash_differs', 'This is another amount than the order costs. Say why', ordered.charge_cents::text);
  end if;
  -- An order that waits without a hold takes its units now.
  if private.is_before_work(ordered.status) and ordered.reserved_until is null and not private.take_units(ordered.id) then
    perform private.refuse(409, 'units_sold',
      'The units of this order were sold in the meantime. There is not enough in stock to reopen it');
  end if;
  insert into public.payments (order_id, phone, charge_cents, status, method, confirmed_by, received_from, note, completed_at)
  values (ordered.id, '', receive_cash.received_cents, 'completed', 'cash', member, person, reason, now())
  returning * into received;
  perform private.set_order_paid(ordered, 'cash');
  if receive_cash.difference = 'credit' then
    perform private.add_change_note(received, 'credit', receive_cash.received_cents - ordered.charge_cents, null, reason, member);
  end if;
  return received;
end
$$;

comment on function public.receive_cash is
  'For staff: cash for an unpaid order was received, from its rider (received_from) or the customer, and pays it. Another amount than the charge needs difference: forgiven (with a note), tip, or credit (owed to the customer); its refusal has the charge as hint.';

create or replace function public.take_back_cash(payment_id uuid, reason text) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  cause text := private.read_reason(take_back_cash.reason, is_required => true);
  ordered public.orders;
  taken public.payments;
  minutes interval := private.reservation();
begin
  perform private.expect_staff_member();
  select o.* into ordered from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = take_back_cash.payment_id)
  for no key update;
  select * into taken from public.payments as p where p.id = take_back_cash.payment_id for update;
  if taken.id is null then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif taken.method <> 'cash' or taken.status <> 'completed' or taken.refunded_at is not null or ordered.payment_status <> 'paid'
    or ordered.status = 'cancelled' or exists (select from public.change_notes as c where c.payment_id = taken.id)
  then
    perform private.refuse(409, 'payment_final', 'This payment cannot be corrected any more. Please look at it in Reconciliation');
  end if;
  update public.payments as p set status = 'failed', note = cause, updated_at = now() where p.id = taken.id;
  -- The customer has paid by M-PESA, too: that money pays the order instead of going back.
  if exists (select from public.payments as p where p.order_id = ordered.id and private.can_still_pay(p)) then
    update public.orders as o set payment_method = 'mpesa', updated_at = now() where o.id = ordered.id;
    perform private.settle_order_again(ordered.id);
    return;
  end if;
  -- It has its units, as every unpaid order in work.
  update public.orders as o
  set payment_status = 'unpaid', expires_at = now() + minutes, reserved_until = now() + minutes,
      expiry_limit = now() + private.longest_reservation(minutes), extended_at = null, updated_at = now()
  where o.id = ordered.id;
end
$$;

comment on function public.take_back_cash is
  'For staff: cash was noted by mistake for an order that is not cancelled. Its order is to be paid in cash again, unless it was paid by M-PESA, too; the payment stays in the books as taken back, with the reason.';

create or replace function public.give_back_cash(payment_id uuid, reason text) returns public.refunds
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member();
  paid public.payments := private.lock_refundable_payment(give_back_cash.payment_id);
  given public.refunds;
begin
  if paid.method <> 'cash' then
    perform private.refuse(409, 'not_cash', 'This payment came by M-PESA. It goes back by M-PESA, or by hand with its receipt');
  end if;
  insert into public.refunds (payment_id, refund_cents, reason, method, status, requested_by, requested_by_email, completed_at)
  values (
    paid.id, paid.charge_cents - (select c.returned_cents from private.change_of(paid.id) as c),
    private.read_reason(give_back_cash.reason, is_required => true), 'cash', 'completed', member, private.email_of(member), now()
  )
  returning * into given;
  return private.complete_refund(given.id, null);
end
$$;

comment on function public.give_back_cash is
  'For staff: the cash of a cancelled order was given back to its customer.';

-- Execution rights
grant execute on function public.choose_cash to anon, authenticated, service_role;

grant execute on function public.agree_cash, public.receive_cash, public.take_back_cash, public.give_back_cash
  to authenticated, service_role;

create or replace function private.reconciliation_rows(since timestamptz, until timestamptz) returns setof public.reconciliation_row
language plpgsql stable set search_path = '' as $$
declare
  coverage tstzmultirange := private.statement_coverage(tstzrange(since, until + interval '10 minutes'));
begin
  return query
  with entries as (
    select t, coalesce(t.payment_id, t.attempt_id) as payment_id, t.resolution
    from public.mpesa_transactions as t
    where t.transacted_at >= reconciliation_rows.since and t.transacted_at < reconciliation_rows.until
    union all
    select null, ours.id, (
      -- For payments that only the shop knows, the last event is the decision.
      select nullif(e.kind, 'reopened') from public.reconciliation_events as e
      where e.payment_id = ours.id and e.kind not like 'change\_%' order by e.id desc limit 1
    )
    from (
      select p.id
      from public.payments as p
      where p.status = 'completed' and p.purpose = 'order' and p.method <> 'cash'
        and p.completed_at >= reconciliation_rows.since and p.completed_at < reconciliation_rows.until
        and not exists (select from public.mpesa_transactions as t where t.payment_id = p.id)
      union all
      select p.id
      from public.payments as p
      where p.status = 'review' and p.purpose = 'order'
        and p.updated_at >= reconciliation_rows.since and p.updated_at < reconciliation_rows.until
        and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id)
      union all
      -- Looked at, and ended by that. Apart, so that each has its index.
      select p.id
      from public.payments as p
      where p.status = 'failed' and p.purpose = 'order' and p.method <> 'cash'
        and p.updated_at >= reconciliation_rows.since and p.updated_at < reconciliation_rows.until
        and exists (select from public.reconciliation_events as e where e.payment_id = p.id and e.kind = 'accepted')
        and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id)
    ) as ours
  ),
  compared as (
    -- t: the money in M-PESA's books; p: the shop's payment of it, or the attempt whose callback named another amount; o: their order,
    -- or the order that the reference names.
    select e.t, p, o, e.resolution, refund.status as refund_status,
      case
        when (e.t).payment_id is null and (e.t).receipt is not null
          then case when (e.t).attempt_id is null and (e.t).order_id is null then 'missing_here' else 'wrong_amount' end
        when private.ended_unpaid(p.status) then 'wrong_amount'
        -- Paid twice. Earlier versions read this word.
        when p.needs_refund then 'double'
        -- Parts that add up to the charge are right.
        when (e.t).received_cents <> p.charge_cents or money.booked_cents <> o.charge_cents then 'wrong_amount'
        when (e.t).receipt is not null then 'matched'
        -- A payment that joins a later attempt was completed before that was made.
        when (
          case when p.created_at >= since then coverage
            else private.statement_coverage(tstzrange(least(p.created_at, p.completed_at), p.completed_at + interval '10 minutes')) end
        ) @> tstzrange(least(p.created_at, p.completed_at), p.completed_at + interval '10 minutes') then 'missing_there'
        when p.method = 'till' and p.confirmed_by is not null and private.should_be_reported(o.id) then 'typed'
        else 'not_compared'
      end as kind,
      money.booked_cents, money.waiting_cents, change.owed_cents, change.returned_cents
    from entries as e
    -- Lookups by key for each entry, with any statistics: an offset keeps the planner from joining whole tables.
    left join lateral (select * from public.payments as p where p.id = e.payment_id offset 0) as p on true
    left join lateral (select * from public.orders as o where o.id = coalesce(p.order_id, (e.t).order_id) offset 0) as o on true
    left join lateral (
      select
        (select sum(own.charge_cents) from (select * from public.payments as own where own.order_id = o.id offset 0) as own
         where own.status = 'completed' and not own.needs_refund) as booked_cents,
        (select sum(part.received_cents) from (select * from public.mpesa_transactions as part where part.order_id = o.id offset 0) as part
         where part.payment_id is null and part.resolution is null) as waiting_cents
    ) as money on o.id is not null
    left join lateral private.change_of(p.id) as change on p.status = 'completed'
    left join lateral (
      select r.status from public.refunds as r
      where r.payment_id = p.id or r.receipt = coalesce((e.t).receipt, p.receipt)
      order by private.is_dropped_refund(r.status), r.created_at desc
      limit 1
    ) as refund on true
    -- The money of a payment test pays no order.
    where p.purpose is distinct from 'test'
  )
  select
    coalesce((c.t).receipt, (c.p).id::text),
    coalesce((c.t).transacted_at, (c.p).completed_at, (c.p).updated_at),
    c.kind,
    case
      when c.kind in ('matched', 'not_compared') or not private.is_dropped_refund(c.refund_status)
        or c.resolution in ('accepted', 'not_an_order') then false
      when c.kind = 'double' then (c.p).refunded_at is null
      when c.kind = 'wrong_amount' and ((c.t).receipt is null or (c.t).payment_id is not null) and (c.p).status = 'completed'
        then (c.t).received_cents <> (c.p).charge_cents or (c.o).payment_status = 'needs_review'
      else true
    end,
    coalesce((c.t).receipt, (c.p).receipt),
    case when (c.p).status in ('completed', 'review') then (c.p).charge_cents end,
    (c.t).received_cents,
    (c.p).id, (c.p).status, (c.p).method, coalesce((c.p).needs_refund, false), (c.p).refunded_at, c.refund_status,
    (c.o).id, (c.o).order_number, (c.o).tracking_number, (c.o).customer_name, (c.o).charge_cents, (c.o).payment_status,
    (c.t).reference, (c.t).payer_name, (c.t).payer_phone, (c.t).reported_by_confirmation_at, (c.t).reported_by_statement_at,
    c.resolution,
    (c.o).status, c.booked_cents, c.waiting_cents, c.owed_cents, c.returned_cents, (c.p).confirmed_by
  from compared as c;
end
$$;

create or replace function private.is_kept_apart(money public.payments) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return money.needs_refund and exists (select from public.change_notes as c where c.payment_id = money.id);
end
$$;
comment on function private.is_kept_apart is
  'Whether a payment that was not needed is owed to its customer, went back in part, or paid another order: its own order cannot have it, too.';

create or replace function private.can_still_pay(money public.payments) returns boolean
language sql stable set search_path = '' as $$
  select money.status = 'completed' and money.refunded_at is null and not private.is_kept_apart(money) and not exists (
    select from public.refunds as r
    where (r.payment_id = money.id or r.receipt = money.receipt) and private.is_open_refund(r.status)
      and not (private.is_unsent_refund(r.status) and r.tries = 0)
  );
$$;

comment on function private.can_still_pay is 'Whether money has come for an order, M-PESA was not asked to send it back, and it was not kept for something else.';

create or replace function private.settle_order_again(order_id uuid) returns void
language plpgsql set search_path = '' as $$
declare
  settled public.orders;
  exact uuid;
  received bigint;
begin
  select * into strict settled from public.orders as o where o.id = settle_order_again.order_id;
  -- Only money that goes back is left: if M-PESA was not asked for it yet, it pays the order instead.
  if settled.status <> 'cancelled' and not exists (
    select from public.payments as own where own.order_id = settled.id and own.status = 'completed' and not own.needs_refund
  ) then
    update public.refunds as r
    set status = 'withdrawn', updated_at = now(), result_description = 'The money turned out to be an order''s'
    where private.is_unsent_refund(r.status) and r.tries = 0 and r.payment_id = (
      select p.id from public.payments as p
      where p.order_id = settled.id and private.can_still_pay(p)
      order by p.charge_cents = settled.charge_cents desc, private.is_being_refunded(p.id, p.receipt), p.completed_at, p.id
      limit 1
    );
  end if;
  -- The exact charge pays the order; otherwise the earliest money counts for it, if none does.
  select p.id into exact from public.payments as p
  where p.order_id = settled.id and p.status = 'completed' and p.refunded_at is null and not private.is_being_refunded(p.id, p.receipt)
    and not private.is_kept_apart(p)
    and (p.charge_cents = settled.charge_cents or not exists (
      select from public.payments as own where own.order_id = settled.id and own.status = 'completed' and not own.needs_refund
    ))
  order by p.charge_cents = settled.charge_cents desc, not p.needs_refund desc, p.completed_at, p.id
  limit 1;
  if exact is not null then
    update public.payments as p set needs_refund = false, updated_at = now() where p.id = exact and p.needs_refund;
    update public.payments as p set needs_refund = true, updated_at = now()
    where p.order_id = settled.id and p.id <> exact and p.status = 'completed' and not p.needs_refund;
  end if;
  select sum(p.charge_cents) into received
  from public.payments as p where p.order_id = settled.id and p.status = 'completed' and not p.needs_refund;
  if received is null then
    perform private.reopen_unpaid_order(settled.id);
  elsif received <> settled.charge_cents and settled.payment_status = 'paid' then
    if not private.put_order_under_review(settled.id) then
      -- Cancelled, and its units were returned.
      update public.orders as o set payment_status = 'needs_review', units_returned_at = null, updated_at = now()
      where o.id = settled.id;
      delete from public.deliveries as d where d.order_id = settled.id;
    end if;
  elsif received = settled.charge_cents and settled.payment_status = 'needs_review' then
    perform private.mark_order_paid(settled.id);
  end if;
  perform private.correct_message_outcomes(p.id)
  from public.payments as p where p.order_id = settled.id and p.status = 'completed';
end
$$;

comment on function private.settle_order_again is
  'Sets what an order is after one of its payments was taken away: paid by another one, under review, or unpaid. The caller has locked the order.';

create or replace function private.record_order_events(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  if old.payment_status <> new.payment_status then
    perform private.record_order_event(
      new.id, 'payment_status_changed',
      case when private.has_money(new.payment_status) and new.payment_method = 'mpesa' then 'mpesa' else 'shop' end,
      jsonb_build_object('from', old.payment_status, 'to', new.payment_status)
    );
  end if;
  if old.status <> new.status then
    perform private.record_order_event(
      new.id, 'status_changed', 'shop',
      jsonb_build_object(
        'from', old.status,
        'to', new.status,
        'reason', case
          when old.payment_status <> new.payment_status and new.payment_status = 'paid' then 'paid'
          when private.is_stated('follows_delivery') then 'delivery'
          else nullif(new.cancel_reason, 'by_shop')
        end
      )
    );
  end if;
  if (old.payment_status = new.payment_status and old.units_returned_at is null and new.units_returned_at is not null)
    or (new.payment_status = 'unpaid' and old.reserved_until is not null and new.reserved_until is null)
  then
    perform private.record_order_event(new.id, 'units_returned', 'shop');
  elsif old.payment_status = new.payment_status and (
    (old.units_returned_at is not null and new.units_returned_at is null)
    or (new.payment_status = 'unpaid' and old.reserved_until is null and new.reserved_until is not null)
  ) then
    perform private.record_order_event(new.id, 'units_taken', 'shop');
  end if;
end
$$;

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
  if new.method = 'cash' then
    perform private.record_order_event(
      new.order_id, 'payment_' || case new.status when 'completed' then 'completed' else 'taken_back' end, 'staff',
      payment || jsonb_build_object('person', new.received_from, 'note', new.note)
    );
    return;
  elsif old.id is null then
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
  if not private.is_open_attempt(new.status) then
    perform private.record_order_event(
      new.order_id, 'payment_' || case new.status when 'review' then 'in_review' else new.status end,
      case new.status when 'unresolved' then 'shop' else 'mpesa' end,
      result || jsonb_build_object('needs_refund', case when new.status = 'completed' and new.needs_refund then true end)
    );
  end if;
end
$$;

create or replace function private.check_handover(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  -- For customers, shipped and out_for_delivery are the same.
  if private.shown_status(old.status) = private.shown_status(new.status) then
    return;
  end if;
  if new.payment_status = 'refunded' then
    perform private.refuse(409, 'order_refunded', 'The money of this order was sent back. It can be neither shipped nor delivered');
  elsif not private.is_to_deliver(new.payment_status, new.payment_method) and not private.is_stated('although_unpaid') and not private.is_stated('undoes') then
    perform private.refuse(409, 'order_unpaid', 'This order is not paid. Confirm that you want to hand it over all the same');
  end if;
end
$$;

comment on function private.check_handover is
  'Refuses to ship or deliver a refunded order, and an unpaid one unless although_unpaid was passed to set_order_status or set_delivery_status.';

-- The queue of paid orders: what each waits for, who prepares it, and one step on (docs/decisions/queue.md).

create or replace function private.work_step(ordered public.orders, delivery public.deliveries) returns text
language sql immutable
return case
  when not private.is_to_deliver(ordered.payment_status, ordered.payment_method) or not private.is_open_order(ordered.status) then null
  when delivery.delivery_status = 'failed' then 'failed'
  when private.is_on_the_way(ordered.status) then 'on_the_way'
  when delivery.ready_at is not null then 'ready'
  when delivery.taken_by is not null then 'preparing'
  else 'prepare'
end;

comment on function private.work_step is
  'What an order that is to be delivered (private.is_to_deliver) waits for: prepare (nobody has it), preparing (somebody has), ready (packed, in the shop), on_the_way, or failed (its delivery failed: try again or refund). Null: nothing.';

create or replace function public.work_queue() returns setof public.deliveries
language plpgsql stable security definer rows 100 set search_path = '' as $$
begin
  perform private.expect_staff();
  return query
    select d.*
    from public.orders as o
    -- One step in an index for each open order: the planner would rather read all deliveries.
    cross join lateral (select * from public.deliveries as own where own.order_id = o.id limit 1) as d
    where private.is_open_order(o.status) and private.is_to_deliver(o.payment_status, o.payment_method)
    order by d.created_at, d.id
    limit 500;
end
$$;

comment on function public.work_queue is
  'For staff: the deliveries of all orders that are paid, or paid in cash at the door, and are neither delivered nor cancelled, the earliest payment first, at most 500.';

create or replace function public.move_on(
  delivery_id uuid, expected_step text, step text,
  delivery_person text default null, delivery_phone text default null, delivery_vehicle text default null
) returns public.status_change
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person text := private.visible_text(move_on.delivery_person);
  phone text := private.visible_text(move_on.delivery_phone);
  vehicle text := private.visible_text(move_on.delivery_vehicle);
  member constant text := private.email_of((select auth.uid()));
  changed public.deliveries;
  state_before jsonb;
begin
  perform private.expect_staff();
  changed := private.lock_delivery(move_on.delivery_id);
  if (select private.work_step(o, changed) from public.orders as o where o.id = changed.order_id)
    is distinct from move_on.expected_step
  then
    perform private.refuse(409, 'delivery_changed', 'This delivery was changed in the meantime. Nothing was saved');
  end if;
  state_before := private.order_state(changed.order_id);
  case move_on.step
    when 'prepare' then
      changed.taken_by := null;
      changed.ready_at := null;
    when 'preparing' then
      changed.taken_by := member;
      changed.ready_at := null;
    when 'ready' then
      changed.taken_by := coalesce(changed.taken_by, member);
      changed.ready_at := coalesce(changed.ready_at, clock_timestamp());
    when 'on_the_way' then
      if changed.delivery_person is null then
        perform private.check_rider(person, phone, vehicle);
        changed.delivery_person := person;
        changed.delivery_phone := phone;
        changed.delivery_vehicle := vehicle;
      elsif person is distinct from changed.delivery_person and person is not null then
        perform private.refuse(409, 'delivery_already_assigned',
          format('%s already has this delivery. Nothing was changed', changed.delivery_person));
      end if;
    when 'delivered' then
    else
      perform private.refuse(400, 'step_unknown', 'This is no step of an order');
  end case;
  update public.deliveries as d
  set delivery_status = case
        when move_on.step = 'on_the_way' then 'picked_up'
        when move_on.step = 'delivered' then 'delivered'
        when private.is_before_pickup(changed.delivery_status) then changed.delivery_status
        when changed.delivery_person is null then 'pending'
        else 'assigned'
      end,
      delivery_person = changed.delivery_person, delivery_phone = changed.delivery_phone, delivery_vehicle = changed.delivery_vehicle,
      taken_by = changed.taken_by, ready_at = changed.ready_at
  where d.id = changed.id;
  return private.record_status_change(changed.order_id, state_before);
end
$$;

comment on function public.move_on is
  'For staff: moves a paid order to a step of private.work_step or to delivered, if it still is at the expected one. preparing: the caller has it. ready: it is packed. on_the_way: its rider takes it, the one given if none was assigned. Result as in set_order_status.';

-- Execution rights
grant execute on function public.work_queue, public.move_on to authenticated, service_role;

-- Conditions read the row's own items and rider in a scalar subquery. With EXISTS PostgreSQL used a hashed subplan and read all items
-- of the shop for the few orders of a search.
create or replace function private.list_conditions(
  filters private.list_filters, is_count boolean, out by_index text, out by_row text, out candidates text, out is_exact boolean,
  out is_broad boolean
)
language plpgsql stable set search_path = '' as $$
declare
  is_orders constant boolean := filters.list = 'orders';
  own constant text := case when is_orders then 'o' else 'd' end;
  -- As in the indexes by words.
  folded constant text := 'private.without_accents(%s)';
  order_text constant text := format(folded, 'private.order_text(o)');
  item_text constant text := format(folded, 'i.product_name');
  rider_text constant text := format(folded, 'private.rider_text(d)');
  is_open constant text := $sql$private.is_open_order(o.status)$sql$;
  is_to_deliver constant text := is_open || $sql$ and private.is_to_deliver(o.payment_status, o.payment_method)$sql$;
  is_refund_due constant text := $sql$((o.payment_status = 'paid' and o.status = 'cancelled') or exists (
    select from public.payments as p where p.order_id = o.id and p.needs_refund and p.refunded_at is null and p.status = 'completed'))$sql$;
  is_review_due constant text := $sql$(o.payment_status = 'needs_review' or (o.payment_status = 'unpaid' and exists (
    select from public.payments as p where p.order_id = o.id and p.status = 'review')))$sql$;
  rider_name constant text := lower(trim(left(filters.rider, 120)));
  typed record;
  indexed text[] := '{}';
  checked text[] := '{}';
  pattern text;
  in_order text[] := '{}';
  anywhere text[] := '{}';
  -- A count stops at 501 orders, of which few have more than three lines with the same word.
  bound text := '';
begin
  typed := private.read_list_search(filters.search);
  is_broad := true;
  is_exact := false;

  if filters.from_day is not null then
    indexed := indexed || format($sql$%s.created_at >= %L::date::timestamp at time zone 'Africa/Nairobi'$sql$, own, filters.from_day);
  end if;
  if filters.until_day is not null then
    indexed := indexed || format($sql$%s.created_at < (%L::date + 1)::timestamp at time zone 'Africa/Nairobi'$sql$, own, filters.until_day);
  end if;

  if is_orders then
    indexed := indexed || case
      when filters.status is null then null
      -- Staff choose "Shipped"; a delivery that leaves makes its order "Out For Delivery".
      when filters.status = 'shipped' then is_open || $sql$ and private.is_on_the_way(o.status)$sql$
      when filters.status in ('pending', 'processing', 'out_for_delivery') then is_open || format(' and o.status = %L', filters.status)
      else format('o.status = %L', filters.status)
    end;
    indexed := indexed || case filters.payment
      when 'paid' then $sql$o.payment_status = 'paid' and o.status <> 'cancelled'$sql$
      -- A cancelled unpaid order owes nothing.
      when 'unpaid' then $sql$o.payment_status = 'unpaid' and o.status <> 'cancelled'$sql$
      when 'cash' then $sql$o.payment_status = 'unpaid' and o.status <> 'cancelled' and o.payment_method = 'cash'$sql$
      when 'refunded' then $sql$o.payment_status = 'refunded'$sql$
      when 'needs_review' then null
      when 'refund_due' then null
      else case when filters.payment is not null then 'false' end
    end;
    indexed := indexed || case filters.due
      when 'late' then is_to_deliver || $sql$ and coalesce(
        (select d.created_at from public.deliveries as d where d.order_id = o.id), o.created_at
      ) < now() - private.delivery_promise()$sql$
      else case when filters.due is not null then
        is_to_deliver || format($sql$ and coalesce(
          (select private.work_step(o, d) from public.deliveries as d where d.order_id = o.id), 'prepare'
        ) = any (%L)$sql$, case filters.due when 'prepare' then array['prepare', 'preparing'] else array[filters.due] end)
      end
    end;
  else
    indexed := indexed || case when filters.status is not null then format('d.delivery_status = %L', filters.status) end;
    indexed := indexed || case filters.due
      when 'late' then $sql$d.delivery_status <> 'delivered' and d.created_at < now() - private.delivery_promise()$sql$
      else case when filters.due is not null then 'false' end
    end;
  end if;

  -- Conditions without an index in the order of the list, the rarest last: candidates come from it.
  if rider_name <> '' then
    if is_orders then
      checked := checked || format(
        'coalesce((select lower(d.delivery_person) = %L from public.deliveries as d where d.order_id = o.id), false)', rider_name
      );
      candidates := format('select d.order_id as id from public.deliveries as d where lower(d.delivery_person) = %L', rider_name);
      is_exact := true;
    else
      indexed := indexed || format('lower(d.delivery_person) = %L', rider_name);
    end if;
  end if;
  if cardinality(typed.order_ids) > 0 then
    checked := checked || format('o.id = any (%L::uuid[])', typed.order_ids);
    candidates := format('select unnest(%L::uuid[]) as id', typed.order_ids);
    is_exact := true;
    is_broad := false;
  elsif typed.words is not null then
    -- Words that are in no product or rider must be in the order itself, whose index finds all of them at once. Parts of fewer than
    -- three letters are not in trigram indexes.
    foreach pattern in array typed.words loop
      if pattern ~ '[[:alnum:]]{3}' then
        if private.is_in_item_names(pattern) or (not is_orders and private.is_in_rider_names(pattern)) then
          anywhere := anywhere || pattern;
        else
          in_order := in_order || pattern;
        end if;
      end if;
    end loop;
    is_exact := cardinality(in_order) + cardinality(anywhere) = cardinality(typed.words) and (in_order = '{}' or anywhere = '{}');
    checked := checked || format('(%s like all (%L::text[])%s)',
      order_text || case when in_order <> typed.words then
        format($sql$ || E'\n' || coalesce((select string_agg(%s, E'\n') from public.order_items as i where i.order_id = o.id), '')$sql$, item_text)
        || case when is_orders then '' else format($sql$ || E'\n' || %s$sql$, rider_text) end
        else '' end,
      typed.words,
      case when typed.digits is not null then
        format(' or %s like %L', order_text, typed.digits)
        || case when is_orders then '' else format(' or %s like %L', rider_text, typed.digits) end
      end
    );
    if is_count and is_orders and is_exact and cardinality(anywhere) = 1 and cardinality(checked) = 1 and array_to_string(indexed, '') = '' then
      bound := ' limit 1503';
    end if;
    -- Without longer parts only the newest rows are searched: candidates stay null, or are these rows and the orders with the digits.
    candidates := case
      when cardinality(in_order) > 0 then format('select o.id from public.orders as o where %s',
        (select string_agg(format('%s like %L', order_text, p.pattern), ' and ') from unnest(in_order) as p (pattern))
        || case when typed.digits is not null then format(' or %s like %L', order_text, typed.digits) else '' end)
      when cardinality(anywhere) > 0 then (
        select string_agg(format('((select i.order_id as id from public.order_items as i where %s like %L%s)', item_text, p.pattern, bound)
          || format(' union (select o.id from public.orders as o where %s like %L%s)', order_text, p.pattern, bound)
          || case when is_orders then '' else
            format(' union select d.order_id from public.deliveries as d where %s like %L', rider_text, p.pattern) end
          || ')', ' intersect ')
        from unnest(anywhere) as p (pattern))
      when typed.digits is not null then format(
        '(select %s as id from public.%I as %s where %s order by %3$s.created_at desc, %3$s.id desc limit %s)
         union select o.id from public.orders as o where %s like %L',
        case when is_orders then 'o.id' else 'd.order_id' end, filters.list, own,
        coalesce(nullif(array_to_string(indexed, ' and '), ''), 'true'), private.short_search_rows(), order_text, typed.digits)
    end || case when typed.digits is not null and not is_orders then
      format(' union select d.order_id from public.deliveries as d where %s like %L', rider_text, typed.digits) else '' end;
  end if;
  if is_orders and filters.payment = 'needs_review' then
    -- Money that came too late or in part, or that M-PESA reports in another amount.
    checked := checked || is_review_due;
    is_exact := false;
    candidates := $sql$
      select o.id from public.orders as o where o.payment_status = 'needs_review'
      union
      select p.order_id from public.payments as p where p.status = 'review'$sql$;
    is_broad := false;
  end if;
  if not is_orders and filters.due = 'late' then
    -- As among orders. Failed deliveries are in no index of open ones, so that these come from their orders.
    checked := checked || is_to_deliver;
    is_exact := false;
    candidates := 'select o.id from public.orders as o where ' || is_to_deliver;
    is_broad := false;
  end if;
  if is_orders and filters.payment = 'refund_due' then
    checked := checked || is_refund_due;
    is_exact := true;
    candidates := $sql$
      select o.id from public.orders as o where o.payment_status = 'paid' and o.status = 'cancelled'
      union
      select p.order_id from public.payments as p where p.needs_refund and p.refunded_at is null and p.status = 'completed'$sql$;
    is_broad := false;
  end if;
  by_index := coalesce(nullif(array_to_string(indexed, ' and '), ''), 'true');
  by_row := nullif(array_to_string(checked, ' and '), '');
  is_exact := is_exact and cardinality(checked) = 1;
end
$$;

comment on function private.list_conditions is
  'The filters of a staff list, orders (o) or deliveries (d with their order o), as conditions in SQL. by_index: on the list''s own table, served by an index in the order of the list; by_row: all others, or null; candidates: a query for the ids of orders that may match, or null to scan only private.short_search_rows() rows; is_exact: whether each candidate meets by_row; is_broad: whether the newest rows are scanned first.';

create or replace function public.count_work() returns table (
  to_prepare integer, ready integer, on_the_way integer, failed integer, late integer, unpaid integer, refunds_due integer, to_assign integer,
  late_deliveries integer, cash_not_received integer
)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff();
  return query select
    private.count_in_list(('orders', null, null, null, null, null, null, 'prepare')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'ready')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'on_the_way')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'failed')),
    private.count_in_list(('orders', null, null, null, null, null, null, 'late')),
    private.count_in_list(('orders', null, null, 'unpaid', null, null, null, null)),
    private.count_in_list(('orders', null, null, 'refund_due', null, null, null, null)),
    private.count_in_list(('deliveries', null, 'pending', null, null, null, null, null)),
    private.count_in_list(('deliveries', null, null, null, null, null, null, 'late')),
    private.count_in_list(('orders', null, 'delivered', 'cash', null, null, null, null));
end
$$;

comment on function public.count_work is
  'For staff: numbers of orders and deliveries that need work, by kind. 10001 means more than 10,000. One row.';

-- Execution rights
grant execute on function public.search_orders, public.count_orders, public.search_deliveries, public.count_deliveries,
  public.count_work to authenticated, service_role;

create or replace function private.queue_messages_of_delivery(old public.deliveries, new public.deliveries) returns void
language plpgsql set search_path = '' as $$
begin
  -- The words of the mail speak of a payment.
  if new.delivery_status = 'failed' and old.delivery_status <> 'failed' and new.failure_reason is not null and exists (
    select from public.orders as o where o.id = new.order_id and private.is_to_deliver(o.payment_status, o.payment_method)
  ) then
    perform private.queue_order_messages(
      new.order_id, 'delivery_failed', private.failure_event_key(new.order_id), due_at => now() + private.undo_window(),
      channels => case (select o.payment_status from public.orders as o where o.id = new.order_id)
        when 'paid' then array['mail', 'text'] else array['text'] end
    );
  end if;
end
$$;

create or replace function private.queue_messages_of_order(old public.orders, new public.orders) returns void
language plpgsql set search_path = '' as $$
begin
  if old.payment_status = 'unpaid' and new.payment_status <> 'unpaid' then
    perform private.release_messages(new.id);
  end if;
  if old.payment_status <> new.payment_status then
    if new.payment_status = 'paid' then
      -- A customer who pays cash stands in front of staff or the rider, and texts cost money.
      perform private.queue_order_messages(
        new.id, 'order_paid', private.payment_event_key(new.id),
        channels => case new.payment_method when 'cash' then array['mail'] else array['mail', 'text'] end
      );
    elsif new.payment_status = 'needs_review' then
      perform private.queue_order_messages(new.id, 'order_payment_held', private.payment_event_key(new.id));
    elsif new.payment_status = 'refunded' and new.payment_method <> 'cash' then
      perform private.queue_order_messages(new.id, 'order_refunded');
    end if;
  end if;
  if old.status <> new.status then
    if private.is_on_the_way(new.status) then
      perform private.queue_order_messages(
        new.id, 'order_on_its_way', private.failure_event_key(new.id), due_at => now() + private.undo_window()
      );
    elsif new.status = 'delivered' then
      perform private.queue_order_messages(new.id, 'order_delivered', due_at => now() + private.undo_window());
    elsif new.status = 'cancelled' and new.payment_status <> 'refunded' then
      if new.cancel_reason = 'not_paid_in_time' then
        -- Not without a prompt, nor when the link was withheld: the order may have a stranger's address.
        if exists (select from public.payments as p where p.order_id = new.id) and not exists (
          select from public.outbox_messages as m
          where m.order_id = new.id and m.kind = 'order_received' and m.channel = 'mail' and m.status = 'over_budget'
        ) then
          perform private.queue_order_messages(new.id, 'order_expired', channels => array['mail']);
        end if;
      else
        -- No texts for unpaid orders, because texts cost money.
        perform private.queue_order_messages(new.id, 'order_cancelled',
          channels => case when new.payment_status = 'unpaid' then array['mail'] else array['mail', 'text'] end,
          due_at => now() + private.undo_window());
      end if;
    end if;
    if new.status = 'cancelled' then
      delete from public.outbox_messages as m
      where m.order_id = new.id and m.status = 'over_budget' and not private.is_message_true(m.order_id, m.kind);
    end if;
  end if;
end
$$;

create or replace function private.note_failed_delivery(old public.deliveries, new public.deliveries) returns void
language plpgsql set search_path = '' as $$
begin
  -- The delivery of a cancelled order fails, too.
  if new.delivery_status = 'failed' and old.delivery_status is distinct from 'failed' and exists (
    select from public.orders as o where o.id = new.order_id and private.is_to_deliver(o.payment_status, o.payment_method) and private.is_open_order(o.status)
  ) then
    perform private.add_notice('failed_delivery', concat_ws(' ', new.order_id, new.failures), new.order_id, (select auth.uid()));
  end if;
end
$$;

create or replace function private.newly_late_orders() returns setof uuid
language plpgsql stable set search_path = '' as $$
begin
  return query
    select late.order_id
    from (
      select * from public.deliveries as d
      where private.is_open_delivery(d.delivery_status)
        -- After an outage, orders that have been late for longer are no news.
        and d.created_at < now() - private.delivery_promise() and d.created_at > now() - private.delivery_promise() - interval '1 hour'
      order by d.created_at desc, d.id desc
      limit 500
    ) as late
    join public.orders as o on o.id = late.order_id
    where private.work_step(o, (
        select d from public.deliveries as d where d.id = late.id
      )) is not null
      and not exists (select from public.notices as n where n.kind = 'late_order' and n.event_key = late.order_id::text);
end
$$;

comment on function private.newly_late_orders is 'Paid orders that are late since at most an hour and have no notice of it.';

create or replace function private.is_notice_waiting(notice public.notices) returns boolean
language plpgsql stable set search_path = '' as $$
declare
  step text;
begin
  if notice.kind = 'refund_to_approve' then
    return exists (select from public.refunds as r where r.id::text = notice.event_key and r.status = 'requested');
  elsif notice.kind = 'inquiry' then
    return exists (select from public.inquiries as i where i.id = notice.event_key::uuid and not i.is_read);
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
  'Whether nobody has dealt with it: nobody has taken the paid order, the late one is not delivered, the failed one is not sent again, the refund is not decided, the inquiry is unread.';
