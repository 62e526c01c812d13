-- Earlier versions keep working: no procedure changes its form. They show no way to give back credit whose money was refunded, as before.
-- Refuses payments that cannot be refunded. Locks the order first.
create or replace function private.lock_refundable_payment(payment_id uuid) returns public.payments
language plpgsql set search_path = '' as $$
declare
  paid_order public.orders;
  paid public.payments;
begin
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = lock_refundable_payment.payment_id)
  for no key update;
  -- Credit of this money is not used while its refund begins.
  if exists (select from public.change_notes as c where lock_refundable_payment.payment_id in (c.payment_id, c.used_for)) then
    perform private.lock_credit(paid_order.customer_phone);
  end if;
  select * into paid from public.payments as p where p.id = lock_refundable_payment.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  elsif paid.refunded_at is not null or private.is_being_refunded(paid.id, paid.receipt) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  elsif paid.status <> 'completed' or not (
    paid.needs_refund
    or paid.purpose = 'test'
    or paid_order.payment_status = 'needs_review'
    or (paid_order.payment_status = 'paid' and paid_order.status = 'cancelled')
  ) then
    perform private.refuse(409, 'nothing_to_send_back', 'There is nothing to send back. Cancel a paid order first to send its money back');
  end if;
  if private.left_to_refund(paid) < 100 then
    perform private.refuse(409, 'nothing_to_send_back', 'All of this money went back already, or paid another order');
  end if;
  return paid;
end
$$;

create or replace function public.note_refund_by_hand(
  refund_receipt text, reason text, payment_id uuid default null, receipt text default null, is_sure boolean default false
) returns public.refunds
language plpgsql security definer set search_path = '' as $$
declare
  member uuid := private.expect_staff_member('refunds');
  paid public.payments;
  reported public.mpesa_transactions;
  noted public.refunds;
begin
  select r.* into noted from public.refunds as r
  where r.method = 'by_hand' and r.refund_receipt = private.normalised_receipt(note_refund_by_hand.refund_receipt)
    and case when note_refund_by_hand.payment_id is null
      then r.transaction_receipt = private.normalised_receipt(note_refund_by_hand.receipt) else r.payment_id = note_refund_by_hand.payment_id end;
  if found then
    return noted;
  elsif note_refund_by_hand.payment_id is null then
    reported := private.lock_refundable_transaction(note_refund_by_hand.receipt, note_refund_by_hand.is_sure);
    return private.open_refund(
      null, reported.receipt, reported.receipt, reported.received_cents, note_refund_by_hand.reason, member,
      coalesce(note_refund_by_hand.refund_receipt, '')
    );
  end if;
  paid := private.lock_refundable_payment(note_refund_by_hand.payment_id);
  if paid.method = 'credit' and not private.has_refunded_source(paid) then
    perform private.refuse(409, 'credit_goes_back_as_credit', 'This was paid from credit. Make it credit again, and give that back');
  end if;
  noted := private.open_refund(
    paid.id, null, paid.receipt, private.left_to_refund(paid),
    note_refund_by_hand.reason, member,
    coalesce(note_refund_by_hand.refund_receipt, '')
  );
  return private.complete_refund(noted.id, noted.refund_receipt);
end
$$;

comment on function public.note_refund_by_hand is
  'Records that a payment, or unassigned money by its receipt, was refunded outside the shop, with M-PESA''s receipt of the refund. Idempotent by that receipt. is_sure: as in request_refund.';

-- Execution rights
grant execute on function public.note_refund_by_hand, public.close_unknown_refund, public.acknowledge_sent_twice
  to authenticated;

create or replace function public.begin_till_registration() returns void
language plpgsql security definer set search_path = '' as $$
begin
  if private.count_hit('till_registrations', 'all', interval '1 hour') > 10 then
    perform private.refuse(429, 'too_many_registrations', 'The addresses were registered ten times within an hour. Please wait before the next time');
  end if;
end
$$;

comment on function public.begin_till_registration is
  'Counts a registration of the till''s addresses from the panel; refuses more than ten an hour, of all staff together.';

-- Execution rights
grant execute on function public.begin_till_registration to service_role;

create or replace function public.give_back_cash(payment_id uuid, reason text) returns public.refunds
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  member uuid := private.expect_staff_member('refunds');
  paid public.payments := private.lock_refundable_payment(give_back_cash.payment_id);
  given public.refunds;
begin
  if paid.method = 'credit' and not private.has_refunded_source(paid) then
    perform private.refuse(409, 'credit_goes_back_as_credit', 'This was paid from credit. Make it credit again, and give that back');
  elsif paid.method not in ('cash', 'credit') then
    perform private.refuse(409, 'not_cash', 'This payment came by M-PESA. It goes back by M-PESA, or by hand with its receipt');
  end if;
  perform private.check_refund_right(private.left_to_refund(paid), paid.id);
  insert into public.refunds (payment_id, refund_cents, reason, method, status, requested_by, requested_by_email, completed_at)
  values (
    paid.id, private.left_to_refund(paid),
    private.read_reason(give_back_cash.reason, is_required => true), 'cash', 'completed', member, private.email_of(member), now()
  )
  returning * into given;
  return private.complete_refund(given.id, null);
end
$$;

comment on function public.give_back_cash is
  'For staff: the cash of a cancelled order was given back to its customer; also what it was paid from credit, if the rest of the money that the credit came from was refunded since.';

grant execute on function public.agree_cash, public.receive_cash, public.take_back_cash, public.give_back_cash
  to authenticated, service_role;

create or replace function private.has_refunded_source(used public.payments) returns boolean
language sql stable set search_path = '' as $$
  select used.method = 'credit' and exists (
    select from public.change_notes as use
    join public.payments as source on source.id = use.payment_id
    where use.used_for = used.id and use.kind = 'used' and source.refunded_at is not null
  );
$$;

comment on function private.has_refunded_source is
  'Whether the rest of the money that a payment from credit came from was refunded: what it used cannot be owed again, and goes back as money.';

create or replace function private.release_credit(used public.payments, note text, member uuid) returns void
language plpgsql set search_path = '' as $$
begin
  -- A refund of the money that it came from takes this lock, too: it leaves what is owed again, or is seen here.
  perform private.lock_credit(o.customer_phone) from public.orders as o where o.id = used.order_id;
  -- What is owed of a refunded payment would be lost.
  if exists (
    select from public.change_notes as use
    join public.payments as source on source.id = use.payment_id
    where use.used_for = used.id and use.kind = 'used'
      and (source.refunded_at is not null or private.is_being_refunded(source.id, source.receipt))
  ) then
    perform private.refuse(409, 'credit_refunded',
      'The rest of the money that this credit came from was sent back, so it cannot be owed again. Cancel the order and give this part back, too');
  end if;
  perform private.add_change_note(source, 'use_taken_back', use.amount_cents, null, release_credit.note, member, used_for => used.id)
  from public.change_notes as use
  join public.payments as source on source.id = use.payment_id
  where use.used_for = used.id and use.kind = 'used';
end
$$;

comment on function private.release_credit is 'What a payment from credit used is owed again. Once; the caller has locked the payment and ends it.';

create or replace function public.kept_totals() returns table (owed_cents bigint, used_cents bigint, returned_cents bigint, customers integer)
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.expect_staff('refunds');
  return query
    with notes as materialized (
      -- As private.change_of, of all payments in one pass.
      select c.payment_id,
        greatest(sum(case
          when c.kind in ('credit', 'to_return', 'use_taken_back') then c.amount_cents
          when not c.is_part_refund then -c.amount_cents
          else 0
        end), 0) as owed,
        sum(case c.kind when 'used' then c.amount_cents when 'use_taken_back' then -c.amount_cents else 0 end) as used,
        coalesce(sum(c.amount_cents) filter (where c.kind = 'returned' and not c.is_part_refund), 0) as returned
      from public.change_notes as c
      group by c.payment_id
      having bool_or(c.kind in ('credit', 'to_return'))
    )
    select coalesce(sum(n.owed) filter (where p.refunded_at is null), 0)::bigint,
      coalesce(sum(n.used), 0)::bigint,
      coalesce(sum(n.returned + case when p.refunded_at is null then 0 else n.owed end), 0)::bigint,
      (count(distinct nullif(o.customer_phone, '')) filter (where p.refunded_at is null and n.owed > 0))::integer
    from notes as n
    join public.payments as p on p.id = n.payment_id
    join public.orders as o on o.id = p.order_id;
end
$$;

comment on function public.kept_totals is
  'For staff: what is owed, was used and went back of what was kept for customers, in cents, and to how many phones something is owed. Of all payments.';

-- Execution rights
grant execute on function public.credit_for_order, public.use_credit, public.take_back_credit, public.kept_for_customers, public.kept_totals
  to authenticated, service_role;

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
    -- Not where the last part of it became credit again or was given back in cash: nothing was sent.
    elsif new.payment_status = 'refunded' and new.payment_method <> 'cash' and coalesce((
      select r.method from public.refunds as r
      join public.payments as p on p.id = r.payment_id
      where p.order_id = new.id and not p.needs_refund and r.status = 'completed'
      order by r.completed_at desc, r.updated_at desc limit 1
    ), '') not in ('credit', 'cash') then
      perform private.queue_order_messages(new.id, 'order_refunded');
    end if;
  end if;
  if old.status <> new.status then
    -- The customer of a collected order has it in hand.
    if new.is_collected and private.has_left_shop(new.status) then
      null;
    elsif private.is_on_the_way(new.status) then
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

create or replace function private.folded_area(area text) returns text
language sql immutable set search_path = '' as $$
  select coalesce(nullif(replace(private.fold_text(left(area, 300)), ' ', ''), ''), area);
$$;

comment on function private.folded_area is 'What spellings of one area have in common: without case, accents, spaces and punctuation.';

create or replace function public.report(since date, until date) returns public.report
language plpgsql stable security definer set search_path = '' as $$
declare
  span_start timestamptz := report.since::timestamp at time zone 'Africa/Nairobi';
  span_end timestamptz := (report.until + 1)::timestamp at time zone 'Africa/Nairobi';
  answer public.report;
begin
  perform private.expect_staff('figures');
  perform private.expect_span(report.since, report.until);
  with placed as materialized (
    select o.id, o.created_at, o.payment_status = 'paid' as is_sold, o.charge_cents, o.charge_cents - o.delivery_fee as drinks_cents, o.is_collected,
      case when o.payment_status = 'paid' then private.area_of(o.shipping_address, o.city) end as area
    from public.orders as o
    where o.created_at >= span_start and o.created_at < span_end
  ), money as materialized (
    select m.* from private.money_rows(span_start, span_end) as m
  ), placed_by_day as (
    select private.nairobi_day(p.created_at) as day, count(*) as orders, count(*) filter (where p.is_sold) as sold,
      sum(p.charge_cents) filter (where p.is_sold) as cents
    from placed as p group by 1
  ), money_by_day as (
    select private.nairobi_day(m.happened_at) as day, sum(m.received_cents) as received, sum(m.refunded_cents) as refunded
    from money as m group by 1
  ), by_day as (
    select (
      d.day::date, coalesce(p.orders, 0), coalesce(p.sold, 0), coalesce(p.cents, 0),
      coalesce(m.received, 0), coalesce(m.refunded, 0), coalesce(m.received, 0) - coalesce(m.refunded, 0)
    )::public.report_day as line, d.day
    from generate_series(report.since::timestamp, report.until::timestamp, interval '1 day') as d (day)
    left join placed_by_day as p on p.day = d.day::date
    left join money_by_day as m on m.day = d.day::date
  ), sold_lines as (
    select i.order_id, i.product_id, i.product_name, i.quantity, i.list_cents, p.drinks_cents - i.all_cents as difference,
      i.list_cents + i.before_cents as until_cents, i.before_cents, i.all_cents
    from placed as p
    -- Lookups by key for each order, with any statistics.
    cross join lateral (
      select i.*, i.quantity::bigint * i.unit_price as list_cents,
        sum(i.quantity::bigint * i.unit_price) over () as all_cents,
        coalesce(sum(i.quantity::bigint * i.unit_price) over (order by i.position, i.id rows between unbounded preceding and 1 preceding), 0) as before_cents
      from public.order_items as i where i.order_id = p.id offset 0
    ) as i
    where p.is_sold
  ), by_drink as (
    -- The discount and the rounding to whole shillings, shared in proportion: each line gets what is due until it, less what is until the one before.
    select (
      i.product_name, max(own.brand), count(distinct i.order_id), sum(i.quantity),
      sum(i.list_cents + coalesce(
        round(i.difference * i.until_cents / nullif(i.all_cents, 0)) - round(i.difference * i.before_cents / nullif(i.all_cents, 0)), 0
      ))::bigint
    )::public.report_drink as line
    from sold_lines as i
    left join lateral (select d.brand from public.products as d where d.id = i.product_id offset 0) as own on true
    group by i.product_name
  ), by_hour as (
    select (h.hour, count(p.id), coalesce(sum(p.charge_cents), 0))::public.report_hour as line, h.hour
    from generate_series(0, 23) as h (hour)
    left join placed as p on p.is_sold and extract(hour from p.created_at at time zone 'Africa/Nairobi') = h.hour
    where exists (select from placed as any_sold where any_sold.is_sold)
    group by h.hour
  ), area_spellings as materialized (
    select p.is_collected, case when not p.is_collected then p.area end as area, count(*) as orders, sum(p.charge_cents) as cents
    from placed as p where p.is_sold
    group by 1, 2
  ), area_sums as (
    select case when s.is_collected then 'Collected at the shop' else (array_agg(s.area order by s.orders desc, s.area))[1] end as area,
      sum(s.orders) as orders, sum(s.cents) as cents
    from area_spellings as s
    group by s.is_collected, private.folded_area(s.area)
  ), ranked_areas as (
    select a.*, row_number() over (order by a.orders desc, a.cents desc, a.area) <= 50 as is_listed from area_sums as a
  ), by_area as (
    select (case when a.is_listed then coalesce(a.area, 'Not known any more') else 'All others' end, sum(a.orders), sum(a.cents))::public.report_area as line
    from ranked_areas as a
    group by a.is_listed, case when a.is_listed then coalesce(a.area, 'Not known any more') else 'All others' end
  ), by_rider as (
    select (
      mode() within group (order by trim(d.delivery_person)), count(*), count(*) filter (where d.delivery_status = 'delivered'),
      sum(d.failures), coalesce(sum(cash.cents), 0)
    )::public.report_rider as line
    from placed as p
    cross join lateral (select * from public.deliveries as d where d.order_id = p.id offset 0) as d
    left join lateral (
      select sum(c.charge_cents) as cents
      from (select * from public.payments as c where c.order_id = p.id offset 0) as c
      where c.method = 'cash' and c.status = 'completed' and lower(trim(c.received_from)) = lower(trim(d.delivery_person))
    ) as cash on true
    where d.delivery_person is not null
    group by lower(trim(d.delivery_person))
  ), by_refund as (
    select (m.kind, m.note, count(*), sum(m.refunded_cents))::public.report_refund as line
    from money as m where m.refunded_cents > 0
    group by m.kind, m.note
  ), by_prompt as (
    select (tried.status, case when tried.status = 'failed' then tried.result_code end, count(*))::public.report_prompt as line
    from placed as p
    cross join lateral (select * from public.payments as tried where tried.order_id = p.id offset 0) as tried
    where tried.method = 'prompt' and tried.purpose = 'order'
    group by tried.status, case when tried.status = 'failed' then tried.result_code end
  )
  select
    array(select d.line from by_day as d order by d.day),
    array(select d.line from by_drink as d order by (d.line).units desc, (d.line).cents desc, (d.line).name),
    array(select h.line from by_hour as h order by h.hour),
    array(select a.line from by_area as a order by (a.line).area = 'All others', (a.line).orders desc, (a.line).cents desc, (a.line).area),
    array(select r.line from by_rider as r order by (r.line).orders desc, (r.line).rider),
    array(select r.line from by_refund as r order by (r.line).cents desc, (r.line).kind, (r.line).reason),
    array(select t.line from by_prompt as t order by (t.line).prompts desc, (t.line).status, (t.line).result_code)
  into answer;
  return answer;
end
$$;

comment on function public.report is
  'For staff: the report on up to 367 days in Nairobi. Reads the orders and the money of these days, whatever the size of the shop. Areas: the 50 with the most orders, and all others.';

-- Execution rights
grant execute on function public.report to authenticated, service_role;
