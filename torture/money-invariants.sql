-- Invariants of the shop's payments, compared with M-PESA's ledger, which is authoritative. Each query returns the rows that
-- violate one invariant. It reads these temporary tables (see money-invariants.ts):
--   ledger (receipt, cents, checkout_request_id, reference): every transaction in which money moved
--   prompts (checkout_request_id, reference, phone, is_decided): every prompt that M-PESA sent
--   reversals (receipt, reversal_receipt, cents): every reversed transaction
--   reversal_requests (receipt, address): every reversal request that M-PESA accepted; the address is unique to a refund
--   stock (product_id, units): initial stock
--   unmatched (receipt): transactions that wait for staff in the shop's reconciliation
-- Invariants marked "at rest" hold once every open payment could be queried; the others always hold.

-- [at rest] every transaction is one completed payment of its amount, or waits for staff
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

-- no payment is completed without a transaction of its amount
select p.id::text as subject, format('%s, receipt %s, %s', p.checkout_request_id, p.receipt, p.charge_cents) as found
from public.payments as p
where p.status = 'completed' and not exists (
  select from ledger as t
  where t.cents = p.charge_cents
    and (t.receipt = p.receipt or (p.receipt is null and t.checkout_request_id = p.checkout_request_id))
);

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

-- an order is paid if and only if its money arrived or staff decided so
select o.id::text as subject, o.payment_status as found
from public.orders as o
where (o.payment_status = 'paid') <> exists (
  select from public.payments as p
  where p.order_id = o.id and p.status = 'completed' and not p.needs_refund
    and p.charge_cents = (o.total_amount + 99) / 100 * 100
)
and o.payment_status not in ('needs_review', 'refunded')
and not exists (
  select from public.order_events as e
  where e.order_id = o.id and e.kind = 'payment_status_changed' and e.actor = 'staff'
);

-- an unpaid order has no money except what is being refunded
select o.id::text as subject, p.receipt as found
from public.orders as o
join public.payments as p on p.order_id = o.id and p.status = 'completed'
where o.payment_status = 'unpaid' and not (p.needs_refund and exists (
  select from public.refunds as r where r.payment_id = p.id and r.status <> 'withdrawn'
));

-- one payment of an order, or parts that staff assigned, pays it; every other payment is flagged for refund
select o.id::text as subject, count(*)::text as found
from public.payments as p
join public.orders as o on o.id = p.order_id
where p.status = 'completed' and not p.needs_refund
group by o.id
having count(*) > 1 and (bool_or(p.confirmed_by is null) or sum(p.charge_cents) > (o.total_amount + 99) / 100 * 100);

-- an order has at most one open attempt
select p.order_id::text as subject, count(*)::text as found
from public.payments as p where p.status in ('initiating', 'processing') group by p.order_id having count(*) > 1;

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

-- no order waits beyond its limit or reserves units for longer than it waits
select o.id::text as subject, format('%s, %s, %s', o.reserved_until, o.expires_at, o.expiry_limit) as found
from public.orders as o
where o.expires_at > o.expiry_limit or o.reserved_until > o.expires_at;

-- stock is never negative
select p.id::text as subject, p.stock_quantity::text as found from public.products as p where p.stock_quantity < 0;

-- a paid order has one delivery, an unpaid one has none
select o.id::text as subject, o.payment_status || ', deliveries: ' || count(d.id) as found
from public.orders as o
left join public.deliveries as d on d.order_id = o.id
where o.payment_status in ('paid', 'unpaid')
group by o.id having count(d.id) <> case o.payment_status when 'paid' then 1 else 0 end;

-- an ended payment has the original message that ended it
select p.id::text as subject, p.status as found
from public.payments as p
where p.status in ('completed', 'failed', 'review') and not exists (
  select from public.payment_messages as m where m.payment_id = p.id and m.outcome is not null
);

-- the customer of a paid order gets one email and one text
select o.id::text as subject, count(m.id)::text as found
from public.orders as o
left join public.outbox_messages as m on m.order_id = o.id and m.kind = 'order_paid' and m.event_key = ''
where o.payment_status = 'paid'
group by o.id having count(m.id) <> 2;

-- an ended payment is not queried
select p.id::text as subject, p.status as found
from public.payments as p where p.next_query_at is not null and p.status <> 'processing';

-- [at rest] no failed payment has money at M-PESA that is missing in the books
select p.id::text as subject, t.receipt as found
from public.payments as p
join ledger as t on t.checkout_request_id = p.checkout_request_id
where p.status = 'failed'
  and not exists (select from public.payments as own where own.receipt = t.receipt and own.status = 'completed')
  and not exists (select from unmatched as u where u.receipt = t.receipt);

-- [at rest] no payment is open that M-PESA has decided and the shop could query, or whose money arrived
select p.id::text as subject, format('%s, %s', p.status, r.checkout_request_id) as found
from public.payments as p
join public.orders as o on o.id = p.order_id
join prompts as r on r.checkout_request_id = p.checkout_request_id
  or (p.checkout_request_id is null and '+254' || r.phone = p.phone
      and r.reference = 'JJ' || substr(o.tracking_number, 6, 6) || substr(o.tracking_number, 13)
      and exists (select from ledger as t where t.checkout_request_id = r.checkout_request_id))
where p.status in ('initiating', 'processing') and r.is_decided;

-- a refund is completed only by a full reversal of its payment
select r.id::text as subject, format('%s of %s, %s', r.refund_receipt, r.receipt, r.refund_cents) as found
from public.refunds as r
where r.method = 'reversal' and r.status = 'completed' and not exists (
  select from reversals as v
  where v.receipt = r.receipt and v.cents = r.refund_cents and coalesce(r.refund_receipt, v.reversal_receipt) = v.reversal_receipt
);

-- [at rest] every reversal is one completed refund or waits for staff
select v.receipt as subject, coalesce((
  select string_agg(format('%s after %s tries, %s', r.status, r.tries, r.result_description), ', ')
  from public.refunds as r where r.receipt = v.receipt
), 'not requested') as found
from reversals as v
where 1 <> (
  select count(*) from public.refunds as r
  where r.receipt = v.receipt and r.refund_cents = v.cents and r.status in ('completed', 'unknown')
);

-- each refund is requested from M-PESA once
select q.receipt as subject, count(*)::text as found
from reversal_requests as q group by q.receipt, q.address having count(*) > 1;

-- no refund is requested from M-PESA that staff did not request
select q.receipt as subject, count(*)::text as found
from reversal_requests as q
where not exists (select from public.refunds as r where r.receipt = q.receipt and r.tries > 0)
group by q.receipt;

-- refunds do not exceed payments
select p.id::text as subject, format('%s of %s', sum(r.refund_cents), p.charge_cents) as found
from public.payments as p
join public.refunds as r on r.payment_id = p.id and r.status not in ('failed', 'withdrawn')
group by p.id
having count(*) > 1 or sum(r.refund_cents) > p.charge_cents
union all
select t.receipt, format('%s of %s', sum(r.refund_cents), t.cents)
from ledger as t
join public.refunds as r on r.receipt = t.receipt and r.status not in ('failed', 'withdrawn')
group by t.receipt, t.cents
having count(*) > 1 or sum(r.refund_cents) > t.cents;

-- no money both pays an order and is refunded
select o.id::text as subject, format('%s is %s, order %s', p.receipt, r.status, o.status) as found
from public.orders as o
join public.payments as p on p.order_id = o.id and p.status = 'completed' and not p.needs_refund
join public.refunds as r on r.receipt = p.receipt and r.status not in ('failed', 'withdrawn')
where o.payment_status = 'paid' and o.status <> 'cancelled';

-- an order is refunded if and only if its own money was refunded
select o.id::text as subject, format('%s, %s', o.payment_status, string_agg(concat_ws(' ', p.receipt, p.refunded_at), ', ')) as found
from public.orders as o
join public.payments as p on p.order_id = o.id and p.status = 'completed' and not p.needs_refund
group by o.id
having (o.payment_status = 'refunded') <> bool_and(p.refunded_at is not null);

-- a payment is refunded if and only if its refund is completed
select p.id::text as subject, format('%s, sent back at %s', p.receipt, p.refunded_at) as found
from public.payments as p
where (p.refunded_at is not null) <> exists (
  select from public.refunds as r where r.payment_id = p.id and r.status = 'completed'
);

-- a refund above the limit is sent only after two staff members agreed
select r.id::text as subject, r.refund_cents::text as found
from public.refunds as r
where r.method = 'reversal' and r.tries > 0 and r.refund_cents > (select s.refund_approval_above from public.store_settings as s)
  and (r.approved_by is null or r.approved_by = r.requested_by);

-- the customer of a refunded payment gets one email and one text
select p.order_id::text as subject, format('%s refunds, %s messages', count(*), sent.messages) as found
from public.refunds as r
join public.payments as p on p.id = r.payment_id
cross join lateral (
  select count(*) as messages from public.outbox_messages as m where m.order_id = p.order_id and m.kind = 'order_refunded'
) as sent
where r.status = 'completed'
group by p.order_id, sent.messages
having sent.messages <> 2 * count(*);

-- [at rest] no refund is open: it is completed, failed, or waits for staff
select r.id::text as subject, format('%s after %s tries, %s', r.status, r.tries, r.result_description) as found
from public.refunds as r
where r.status in ('approved', 'sending', 'sent') or r.next_check_at is not null;

-- [at rest] all money that moved is in the books
select 'all money' as subject, format('%s moved, %s booked, %s waits for staff', moved, booked, waiting) as found
from (
  select
    (select coalesce(sum(t.cents), 0) from ledger as t) as moved,
    (select coalesce(sum(p.charge_cents), 0) from public.payments as p where p.status = 'completed') as booked,
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
