-- Invariants of the shop's orders, payments, refunds and stock. Each query returns the rows that violate one invariant.
-- The tests of the database check them after each test (supabase/tests/payments/books/balanced-books.ts), the torture tests during
-- and after each run (torture/money-invariants.ts). They read this temporary table:
--   stock (product_id, units): initial stock
-- Those marked "ledger" compare the books with M-PESA's ledger, which is authoritative and known to the torture tests alone. They read
-- these temporary tables, too:
--   ledger (receipt, cents, checkout_request_id, reference): every transaction in which money moved
--   prompts (checkout_request_id, reference, phone, is_decided): every prompt that M-PESA sent
--   reversals (receipt, reversal_receipt, cents): every reversed transaction
--   reversal_requests (receipt, address): every reversal request that M-PESA accepted; the address is unique to a refund
--   unmatched (receipt): transactions that wait for staff in the shop's reconciliation
-- Invariants marked "at rest" hold once every open payment could be queried; the others always hold.

-- Stock -------------------------------------------------------------------------------------------------------------------

-- stock is the initial stock minus sold and reserved units
select p.id::text as subject, format('%s of %s', p.stock_quantity, s.units) as found
from stock as s
join public.products as p on p.id = s.product_id
left join public.order_items as i on i.product_id = p.id
left join public.orders as o on o.id = i.order_id
group by p.id, p.stock_quantity, s.units
having s.units <> p.stock_quantity + coalesce(sum(i.quantity) filter (
  where (o.payment_status in ('paid', 'refunded') and o.units_returned_at is null)
    or (o.payment_status = 'unpaid' and o.reserved_until is not null)
), 0);

-- the history of the stock has no gap and ends with the stock
select s.product_id::text as subject, format('%s, then %s', s.to_units, s.next_units) as found
from (
  select c.product_id, c.to_units,
    coalesce(lead(c.from_units) over (partition by c.product_id order by c.id), p.stock_quantity) as next_units
  from public.stock_changes as c
  join public.products as p on p.id = c.product_id
) as s
where s.to_units <> s.next_units;

-- an order costs what its items and its delivery cost, without its discount
select o.id::text as subject,
  format('%s instead of %s', o.total_amount, sum(i.unit_price::bigint * i.quantity) + o.delivery_fee - o.discount_cents) as found
from public.orders as o
join public.order_items as i on i.order_id = o.id
group by o.id
having sum(i.unit_price::bigint * i.quantity) + o.delivery_fee - o.discount_cents <> o.total_amount;

-- the discount of an order is what its code takes off its items, and never more than they cost
select o.id::text as subject, format('%s by %s', o.discount_cents, o.discount_code) as found
from public.orders as o
join public.order_items as i on i.order_id = o.id
left join public.discount_codes as d on d.code = o.discount_code
where o.discount_code is not null or o.discount_cents <> 0
group by o.id, d.id
having o.discount_cents is distinct from private.discount_on(d, sum(i.unit_price::bigint * i.quantity)::bigint, o.delivery_fee)
  or o.discount_cents > sum(i.unit_price::bigint * i.quantity) or sum(i.unit_price::bigint * i.quantity) < d.minimum_cents;

-- no discount code has more uses than it allows, but for orders that were reopened, or paid after their end
select d.code as subject, format('%s of %s', count(*), d.max_uses) as found
from public.discount_codes as d
join public.orders as o on o.discount_code = d.code and not (o.status = 'cancelled' and o.payment_status = 'unpaid')
where not exists (
  select from public.order_events as e
  where e.order_id = o.id and e.kind = 'status_changed' and e.details ->> 'from' = 'cancelled'
)
group by d.id
having count(*) > d.max_uses;

-- stock is never negative
select p.id::text as subject, p.stock_quantity::text as found from public.products as p where p.stock_quantity < 0;

-- the counter of units reserved by unpaid orders is right
select p.id::text as subject, format('%s counted', h.quantity) as found
from public.products as p
left join private.held_units as h on h.product_id = p.id
where coalesce(h.quantity, 0) <> (
  select coalesce(sum(i.quantity), 0)
  from public.order_items as i
  join public.orders as o on o.id = i.order_id
  where i.product_id = p.id and o.payment_status = 'unpaid' and o.reserved_until is not null and o.status in ('pending', 'cancelled')
);

-- hold time is counted only for an order that holds units
select o.id::text as subject, format('%s, %s, %s', o.status, o.payment_status, o.reserved_until) as found
from private.unpaid_holds as h
join public.orders as o on o.id = h.order_id
where o.payment_status <> 'unpaid' or o.reserved_until is null or o.status not in ('pending', 'cancelled');

-- an order counts for its networks while it is unpaid and not handed over
select o.id::text as subject, format('%s, %s, open: %s', o.status, o.payment_status, k.is_open) as found
from private.order_networks as k
join public.orders as o on o.id = k.order_id
where o.payment_status <> 'unpaid' or o.status not in ('pending', 'cancelled')
  or k.is_open <> (o.status = 'pending') or (k.ended_at is null and o.reserved_until is null and o.status = 'cancelled');

-- no order waits beyond its limit or reserves units for longer than it waits
select o.id::text as subject, format('%s, %s, %s', o.reserved_until, o.expires_at, o.expiry_limit) as found
from public.orders as o
where o.expires_at > o.expiry_limit or o.reserved_until > o.expires_at;

-- only cancelled orders have returned units
select o.id::text as subject, o.status as found
from public.orders as o where o.units_returned_at is not null and o.status <> 'cancelled';

-- a paid order reserves nothing, and only staff cancel it
select o.id::text as subject, format('%s, %s', o.status, o.reserved_until) as found
from public.orders as o
where o.payment_status = 'paid' and (o.reserved_until is not null or (o.status = 'cancelled' and not exists (
  select from public.order_events as e
  where e.order_id = o.id and e.kind = 'status_changed' and e.actor = 'staff' and e.details ->> 'to' = 'cancelled'
    and e.id > (select max(paid.id) from public.order_events as paid
      where paid.order_id = o.id and paid.kind = 'payment_status_changed' and paid.details ->> 'to' = 'paid')
)));

-- Deliveries --------------------------------------------------------------------------------------------------------------

-- an order that is paid, or paid in cash at the door, has one delivery; another unpaid one has none
select o.id::text as subject, o.payment_status || ', deliveries: ' || count(d.id) as found
from public.orders as o
left join public.deliveries as d on d.order_id = o.id
where o.payment_status <> 'refunded'
group by o.id having count(d.id) <> case when private.is_to_deliver(o.payment_status, o.payment_method) then 1 else 0 end;

-- an order and its delivery agree
select o.id::text as subject, format('%s, delivery %s', o.status, d.delivery_status) as found
from public.orders as o
join public.deliveries as d on d.order_id = o.id
where d.delivery_status <> private.delivery_status_for_order(o, d.delivery_status, d.delivery_person);

-- a press of a rider counts once: each that was done is one step on the timeline
select d.order_id::text as subject, format('%s presses, %s steps', pressed.count, stepped.count) as found
from public.deliveries as d
cross join lateral (
  select count(*) from private.rider_presses as p where p.delivery_id = d.id and p.outcome ->> 'outcome' = 'done'
) as pressed
cross join lateral (
  select count(*) from public.order_events as e where e.order_id = d.order_id and e.actor = 'rider' and e.kind = 'delivery_status_changed'
) as stepped
-- Presses are deleted with the links of their riders.
where pressed.count > stepped.count or (pressed.count < stepped.count and exists (
  select from private.rider_presses as p where p.delivery_id = d.id
));

-- no more than five wrong codes are compared, and the steps of a delivery are in order
select d.order_id::text as subject, format('%s wrong codes, picked up %s, delivered %s', d.wrong_codes, d.pickup_time, d.delivery_time) as found
from public.deliveries as d
where d.wrong_codes > 5 or d.delivery_time < d.pickup_time;

-- cash that a rider collected is on the timeline, in the amount of the delivery
select d.order_id::text as subject, format('%s, on the timeline %s', d.collected_cents, noted.cents) as found
from public.deliveries as d
left join lateral (
  select (e.details ->> 'received_cents')::integer as cents from public.order_events as e
  where e.order_id = d.order_id and e.kind = 'cash_collected' order by e.id desc limit 1
) as noted on true
where d.collected_cents is distinct from noted.cents;

-- no money both pays an order and is refunded
select o.id::text as subject, format('%s is %s, order %s', p.receipt, r.status, o.status) as found
from public.orders as o
join public.payments as p on p.order_id = o.id and p.status = 'completed' and not p.needs_refund
join public.refunds as r on r.receipt = p.receipt and r.status not in ('failed', 'withdrawn')
where o.payment_status = 'paid' and o.status <> 'cancelled';

-- Payments ----------------------------------------------------------------------------------------------------------------

-- no transaction completes two payments
select p.receipt as subject, count(*)::text as found
from public.payments as p where p.receipt is not null group by p.receipt having count(*) > 1
union all
select p.checkout_request_id, count(*)::text
from public.payments as p where p.checkout_request_id is not null group by p.checkout_request_id having count(*) > 1;

-- a completed payment lacks its receipt only if no message had one
select p.id::text as subject, m.source || ': ' || m.outcome as found
from public.payments as p
join public.payment_messages as m on m.payment_id = p.id
where p.status = 'completed' and p.receipt is null
  and m.source not in ('push', 'query') and m.outcome in ('paid', 'paid_twice', 'paid_needs_review', 'goes_back', 'already_completed')
  and m.body like '%MpesaReceiptNumber%';

-- an order is paid if and only if its money arrived or staff decided so, also that another amount of cash is enough
select o.id::text as subject, o.payment_status as found
from public.orders as o
where (o.payment_status = 'paid') <> exists (
  select from public.payments as p
  where p.order_id = o.id and p.status = 'completed' and not p.needs_refund
    and (p.charge_cents = (o.total_amount + 99) / 100 * 100 or p.method in ('cash', 'credit'))
)
and o.payment_status not in ('needs_review', 'refunded')
and not exists (
  select from public.order_events as e
  where e.order_id = o.id and e.kind = 'payment_status_changed' and e.actor = 'staff'
);

-- a paid order has payments of its charge, or of an amount that staff accepted
select o.id::text as subject, format('%s of %s in %s', sum(p.charge_cents), o.total_amount, count(p.id)) as found
from public.orders as o
left join public.payments as p on p.order_id = o.id and p.status = 'completed' and not p.needs_refund
where o.payment_status in ('paid', 'needs_review')
group by o.id
having count(p.id) = 0
  or ((count(p.id) > 1 or sum(p.charge_cents) <> (o.total_amount + 99) / 100 * 100) and (
    bool_or(p.method = 'prompt')
    -- The staff member who took cash was asked why it differs. Credit pays exactly what is missing.
    or (o.payment_status = 'paid' and bool_or(p.method <> 'cash')
      and not (bool_or(p.method = 'credit') and sum(p.charge_cents) = (o.total_amount + 99) / 100 * 100)
      and not exists (select from public.change_notes as c where c.payment_id = any (array_agg(p.id))) and not exists (
      select from public.order_events as e
      where e.order_id = o.id and e.kind = 'payment_status_changed' and e.actor = 'staff' and e.details ->> 'from' = 'needs_review'
    ))
  ));

-- an unpaid order has no money except what is being refunded, or was kept for its customer
select o.id::text as subject, p.receipt as found
from public.orders as o
join public.payments as p on p.order_id = o.id and p.status = 'completed'
where o.payment_status = 'unpaid' and not (p.needs_refund and exists (
  select from public.refunds as r where r.payment_id = p.id and r.status <> 'withdrawn'
  union all select from public.change_notes as c where c.payment_id = p.id
));

-- one payment of an order, or parts that staff assigned, pays it; every other payment is flagged for refund
select o.id::text as subject, count(*)::text as found
from public.payments as p
join public.orders as o on o.id = p.order_id
where p.status = 'completed' and not p.needs_refund
group by o.id
having count(*) > 1 and (bool_or(p.confirmed_by is null) or (
  sum(p.charge_cents) filter (where not private.is_being_refunded(p.id)) > (o.total_amount + 99) / 100 * 100
  and not exists (select from public.change_notes as c where c.payment_id = any (array_agg(p.id)))
));

-- an order has at most one open attempt
select p.order_id::text as subject, count(*)::text as found
from public.payments as p
where p.purpose = 'order' and p.status in ('initiating', 'processing') group by p.order_id having count(*) > 1;

-- an ended payment by M-PESA has the original message that ended it
select p.id::text as subject, p.status as found
from public.payments as p
where p.status in ('completed', 'failed', 'review') and p.method not in ('cash', 'credit') and not exists (
  select from public.payment_messages as m where m.payment_id = p.id and m.outcome is not null
);

-- a completed payment by M-PESA was completed by exactly one message
select p.id::text as subject, p.receipt as found
from public.payments as p
where p.status = 'completed' and p.purpose = 'order' and p.method not in ('cash', 'credit') and 1 <> (
  select count(*) from public.payment_messages as m
  where m.payment_id = p.id and m.outcome in ('paid', 'paid_twice', 'paid_needs_review', 'goes_back')
);

-- an ended payment is not queried, unless its message contradicted itself
select p.id::text as subject, p.status as found
from public.payments as p
where p.next_query_at is not null and p.status <> 'processing' and not (p.status = 'review' and p.review_cause = 'contradiction');

-- only a completed prompt with a receipt has a presumption
select p.id::text as subject, p.presumption as found
from public.payments as p
where p.presumption is not null and (p.receipt is null or p.status <> 'completed' or p.method <> 'prompt');

-- a test payment belongs to no order
select p.id::text as subject, p.order_id::text as found
from public.payments as p
where p.purpose = 'test' and (p.order_id is not null or p.charge_cents <> 100 or p.needs_refund);

-- a transaction of M-PESA is matched to the payment with its receipt, or to none
select t.receipt as subject, format('matched to %s, receipt of %s', t.payment_id, p.id) as found
from public.mpesa_transactions as t
left join public.payments as p on p.receipt = t.receipt
where t.payment_id is distinct from p.id or (p.id is not null and p.status <> 'completed');

-- the customer of a paid order gets one text (for cash perhaps none) and, with an address, one email about its newest payment
select o.id::text as subject, count(m.id)::text as found
from public.orders as o
left join public.outbox_messages as m on m.order_id = o.id and m.kind = 'order_paid' and not exists (
  select from public.outbox_messages as later
  where later.order_id = o.id and later.kind = 'order_paid' and later.created_at > m.created_at
)
where o.payment_status = 'paid'
group by o.id
having (count(m.id) filter (where m.channel = 'text') <> 1 and not (count(m.id) filter (where m.channel = 'text') = 0 and exists (
    select from public.payments as p where p.order_id = o.id and p.method = 'cash'
  )))
  -- Whether staff had entered an address is unknown once it was removed.
  or count(m.id) filter (where m.channel = 'mail') not between
    case when o.customer_email <> '' or (o.anonymised_at is not null and o.source = 'storefront') then 1 else 0 end
    and case when o.customer_email <> '' or o.anonymised_at is not null then 1 else 0 end;

-- the figures of a day are those of its orders, payments and refunds
select day::text as subject, format('off by %s orders, %s placed, %s received', sum(orders), sum(revenue_cents), sum(received_cents)) as found
from (
  select t.day, t.orders, t.revenue_cents, t.received_cents from private.daily_totals as t
  union all
  select private.nairobi_day(o.created_at), -1, -o.total_amount, 0 from public.orders as o
  union all
  select coalesce(private.nairobi_day(p.completed_at), '-infinity'), 0, 0, -p.charge_cents
  from public.payments as p where p.status = 'completed' and p.purpose = 'order' and p.method <> 'credit'
  union all
  select coalesce(private.nairobi_day(r.completed_at), '-infinity'), 0, 0, r.refund_cents
  from public.refunds as r join public.payments as p on p.id = r.payment_id and p.purpose = 'order'
  where r.status = 'completed' and r.method <> 'credit'
  union all
  select private.nairobi_day(c.noted_at), 0, 0, c.amount_cents from public.change_notes as c where c.kind = 'returned'
) as difference
group by day
having sum(orders) <> 0 or sum(revenue_cents) <> 0 or sum(received_cents) <> 0;

-- the rows of what moved money on a day add up to its figures
select day::text as subject, format('off by %s', sum(cents)) as found
from (
  select t.day, t.received_cents as cents from private.daily_totals as t where t.day > '-infinity'
  union all
  select private.nairobi_day(m.happened_at), m.refunded_cents - m.received_cents from private.money_rows('-infinity', 'infinity') as m
) as difference
group by day
having sum(cents) <> 0;

-- the counted cash of a closed day is that of its totals
select d.day::text as subject, format('%s of %s', sum(c.expected_cents), d.totals ->> 'in_cash') as found
from public.day_closes as d
left join public.cash_counts as c on c.day = d.day
group by d.day
having coalesce(sum(c.expected_cents), 0) <> (d.totals ->> 'in_cash')::bigint + (d.totals ->> 'refunded_in_cash')::bigint;

-- Refunds -----------------------------------------------------------------------------------------------------------------

-- a payment is refunded once, up to its amount
select p.id::text as subject, format('%s of %s', sum(r.refund_cents), p.charge_cents) as found
from public.payments as p
join public.refunds as r on r.payment_id = p.id and r.status not in ('failed', 'withdrawn')
group by p.id
having count(*) > 1 or sum(r.refund_cents) > p.charge_cents or p.status <> 'completed' or bool_or(r.receipt <> p.receipt);

-- what was refunded, went back in part, is owed and paid other orders never exceeds what came; what left before M-PESA reported less than
-- staff had typed never exceeds that
select p.id::text as subject, format('%s returned, %s owed, %s used', change.returned_cents, change.owed_cents, change.used_cents) as found
from public.payments as p
cross join lateral private.change_of(p.id) as change
cross join lateral (
  select greatest(p.charge_cents, private.came_cents(p), max((m.body::jsonb ->> 'received_cents')::integer)) as most_cents
  from public.payment_messages as m where m.payment_id = p.id and m.source = 'till' and m.body <> '{}'
) as booked
where change.used_cents < 0
  or (change.owed_cents > 0 and change.returned_cents + change.owed_cents + change.used_cents > private.came_cents(p) and p.refunded_at is null)
  or change.returned_cents + change.owed_cents + change.used_cents > booked.most_cents
  or change.returned_cents + change.used_cents + (
    select coalesce(sum(r.refund_cents), 0) from public.refunds as r where r.payment_id = p.id and r.status not in ('failed', 'withdrawn')
  ) > booked.most_cents;

-- every shilling of a payment counts once: for its order, as owed, as change that went back, or for another order
select p.id::text as subject, format('%s counted of %s: %s owed, %s used', public.counted_cents(p), p.charge_cents, change.owed_cents, change.used_cents) as found
from public.payments as p
cross join lateral private.change_of(p.id) as change
cross join lateral (
  select coalesce(sum(c.amount_cents), 0) as cents from public.change_notes as c
  where c.payment_id = p.id and c.kind = 'returned' and not c.is_part_refund
) as change_back
where public.counted_cents(p) + least(change.owed_cents + change.used_cents + change_back.cents, p.charge_cents) <> p.charge_cents;

-- no money is owed, used or given back of a payment that did not come
select p.id::text as subject, format('%s: %s owed, %s returned, %s used', p.status, change.owed_cents, change.returned_cents, change.used_cents) as found
from public.payments as p
cross join lateral private.change_of(p.id) as change
where p.status <> 'completed' and change.owed_cents + change.returned_cents + change.used_cents <> 0;

-- a payment from credit used as much of it as it paid, of its own phone, and nothing once it was taken back or became credit again; it
-- goes back as money only if that of its source did
select p.id::text as subject, format('%s of %s, %s', sum(case c.kind when 'used' then c.amount_cents else -c.amount_cents end), p.charge_cents, p.status) as found
from public.payments as p
join public.orders as paid on paid.id = p.order_id
left join public.change_notes as c on c.used_for = p.id
left join public.payments as source on source.id = c.payment_id
left join public.orders as came on came.id = source.order_id
where p.method = 'credit'
group by p.id, p.charge_cents, p.status, p.refunded_at
having coalesce(sum(case c.kind when 'used' then c.amount_cents else -c.amount_cents end), 0)
    <> case when p.status = 'completed' and not exists (
      select from public.refunds as r where r.payment_id = p.id and r.method = 'credit' and r.status = 'completed'
    ) then p.charge_cents else 0 end
  or (p.refunded_at is not null and bool_and(source.refunded_at is null) and not exists (
    select from public.refunds as r where r.payment_id = p.id and r.method = 'credit' and r.status = 'completed'
  ))
  or bool_or(came.id = paid.id or (came.customer_phone <> paid.customer_phone and came.anonymised_at is null and paid.anonymised_at is null));

-- only a payment from credit uses credit, and only it becomes credit again
select p.id::text as subject, p.method as found
from public.payments as p
where p.method <> 'credit' and (
  exists (select from public.change_notes as c where c.used_for = p.id)
  or exists (select from public.refunds as r where r.payment_id = p.id and r.method = 'credit')
);

-- a payment is refunded if and only if its refund is completed
select p.id::text as subject, format('%s, sent back at %s', p.receipt, p.refunded_at) as found
from public.payments as p
where (p.refunded_at is not null) <> exists (
  select from public.refunds as r where r.payment_id = p.id and r.status = 'completed'
);

-- an order is refunded if and only if its own money was refunded
select o.id::text as subject, format('%s, %s', o.payment_status, string_agg(concat_ws(' ', p.receipt, p.refunded_at), ', ')) as found
from public.orders as o
join public.payments as p on p.order_id = o.id and p.status = 'completed' and not p.needs_refund
group by o.id
having (o.payment_status = 'refunded') <> bool_and(p.refunded_at is not null);

-- a refund by M-PESA is completed by M-PESA or by staff
select r.id::text as subject, r.receipt as found
from public.refunds as r
where r.method = 'reversal' and r.status = 'completed'
  and not exists (select from public.payment_messages as m where m.refund_id = r.id and m.outcome = 'completed')
  and not exists (
    select from public.order_events as e join public.payments as p on p.order_id = e.order_id
    where p.id = r.payment_id and e.kind = 'refund_completed' and e.actor = 'staff'
  );

-- a refund above the limit is sent only after two staff members agreed, or the only owner waited
select r.id::text as subject, r.refund_cents::text as found
from public.refunds as r
where r.method = 'reversal' and (r.tries > 0 or r.sent_at is not null)
  and (r.needs_approval or r.refund_cents > (select s.refund_approval_above from public.store_settings as s))
  and (r.approved_by is null or (r.approved_by = r.requested_by and not r.approved_alone)
    or (r.approved_alone and r.approved_at < r.created_at + interval '10 minutes'));

-- the customer of money that went back by M-PESA or by hand gets one text and, with an address, one email
select back.order_id::text as subject, format('%s refunds, %s texts, %s emails', count(*), sent.texts, sent.mails) as found
from (
  select p.order_id from public.refunds as r
  join public.payments as p on p.id = r.payment_id and p.purpose = 'order'
  where r.status = 'completed' and r.method not in ('cash', 'credit')
  union all
  select p.order_id from public.change_notes as c join public.payments as p on p.id = c.payment_id where c.way = 'mpesa'
) as back
join public.orders as o on o.id = back.order_id
cross join lateral (
  select count(*) filter (where m.channel = 'text') as texts, count(*) filter (where m.channel = 'mail') as mails
  from public.outbox_messages as m where m.order_id = o.id and m.kind = 'order_refunded'
) as sent
group by back.order_id, o.id, sent.texts, sent.mails
having sent.texts <> count(*)
  or sent.mails not between
    case when o.customer_email <> '' or (o.anonymised_at is not null and o.source = 'storefront') then count(*) else 0 end
    and case when o.customer_email <> '' or o.anonymised_at is not null then count(*) else 0 end;

-- [at rest] no refund is open: it is completed, failed, or waits for staff
select r.id::text as subject, format('%s after %s tries, %s', r.status, r.tries, r.result_description) as found
from public.refunds as r
where r.status in ('approved', 'sending', 'sent') or r.next_check_at is not null;

-- M-PESA's ledger ---------------------------------------------------------------------------------------------------------

-- [ledger, at rest] every transaction is one completed payment of its amount, or waits for staff
select t.receipt as subject, coalesce((
  select string_agg(format('%s %s of %s', p.status, coalesce(p.receipt, 'without receipt'), p.charge_cents), ', ')
  from public.payments as p where p.receipt = t.receipt or p.checkout_request_id = t.checkout_request_id
), 'not known, reference ' || t.reference) as found
from ledger as t
where 1 <> (
  select count(*) from public.payments as p
  where p.status = 'completed' and p.charge_cents = t.cents
    and (p.receipt = t.receipt or (p.receipt is null and p.checkout_request_id = t.checkout_request_id))
)
and not exists (
  select from public.payments as p
  where p.status = 'review' and (p.receipt = t.receipt or p.checkout_request_id = t.checkout_request_id)
)
and not exists (select from unmatched as u where u.receipt = t.receipt);

-- [ledger] no payment is completed without a transaction of its amount
select p.id::text as subject, format('%s, receipt %s, %s', p.checkout_request_id, p.receipt, p.charge_cents) as found
from public.payments as p
where p.status = 'completed' and p.method not in ('cash', 'credit') and not exists (
  select from ledger as t
  where t.cents = p.charge_cents
    and (t.receipt = p.receipt or (p.receipt is null and t.checkout_request_id = p.checkout_request_id))
);

-- [ledger, at rest] no failed payment has money at M-PESA that is missing in the books
select p.id::text as subject, t.receipt as found
from public.payments as p
join ledger as t on t.checkout_request_id = p.checkout_request_id
where p.status = 'failed'
  and not exists (select from public.payments as own where own.receipt = t.receipt and own.status = 'completed')
  and not exists (select from unmatched as u where u.receipt = t.receipt);

-- [ledger, at rest] no payment is open that M-PESA has decided and the shop could query, or whose money arrived
select p.id::text as subject, format('%s, %s', p.status, r.checkout_request_id) as found
from public.payments as p
join public.orders as o on o.id = p.order_id
join prompts as r on r.checkout_request_id = p.checkout_request_id
  or (p.checkout_request_id is null and '+254' || r.phone = p.phone
      and r.reference = 'JJ' || substr(o.tracking_number, 6, 6) || substr(o.tracking_number, 13)
      and exists (select from ledger as t where t.checkout_request_id = r.checkout_request_id))
where p.status in ('initiating', 'processing') and r.is_decided;

-- [ledger] a refund is completed only by a full reversal of its payment
select r.id::text as subject, format('%s of %s, %s', r.refund_receipt, r.receipt, r.refund_cents) as found
from public.refunds as r
where r.method = 'reversal' and r.status = 'completed' and not exists (
  select from reversals as v
  where v.receipt = r.receipt and v.cents = r.refund_cents and coalesce(r.refund_receipt, v.reversal_receipt) = v.reversal_receipt
);

-- [ledger, at rest] every reversal is one completed refund or waits for staff
select v.receipt as subject, coalesce((
  select string_agg(format('%s after %s tries, %s', r.status, r.tries, r.result_description), ', ')
  from public.refunds as r where r.receipt = v.receipt
), 'not requested') as found
from reversals as v
where 1 <> (
  select count(*) from public.refunds as r
  where r.receipt = v.receipt and r.refund_cents = v.cents and r.status in ('completed', 'unknown')
);

-- [ledger] each refund is requested from M-PESA once
select q.receipt as subject, count(*)::text as found
from reversal_requests as q group by q.receipt, q.address having count(*) > 1;

-- [ledger] no refund is requested from M-PESA that staff did not request
select q.receipt as subject, count(*)::text as found
from reversal_requests as q
where not exists (select from public.refunds as r where r.receipt = q.receipt and r.tries > 0)
group by q.receipt;

-- [ledger] refunds do not exceed the transactions that they refund
select t.receipt as subject, format('%s of %s', sum(r.refund_cents), t.cents) as found
from ledger as t
join public.refunds as r on r.receipt = t.receipt and r.status not in ('failed', 'withdrawn')
group by t.receipt, t.cents
having count(*) > 1 or sum(r.refund_cents) > t.cents;

-- [ledger, at rest] all money that moved is in the books
select 'all money' as subject, format('%s moved, %s booked, %s waits for staff', moved, booked, waiting) as found
from (
  select
    (select coalesce(sum(t.cents), 0) from ledger as t) as moved,
    (select coalesce(sum(p.charge_cents), 0) from public.payments as p
     where p.status = 'completed' and p.method not in ('cash', 'credit')) as booked,
    (select coalesce(sum(t.cents), 0) from ledger as t
     where not exists (
       select from public.payments as p where p.status = 'completed' and (p.receipt = t.receipt
         or (p.receipt is null and p.checkout_request_id = t.checkout_request_id))
     ) and (
       exists (select from public.payments as p where p.status = 'review' and p.checkout_request_id = t.checkout_request_id)
       or exists (select from unmatched as u where u.receipt = t.receipt)
     )) as waiting
) as sums
where moved <> booked + waiting;
