-- Names for groups of states: a rule that holds for several states is stated here alone, and the compiler of the plans reads it as if
-- it were written out. A new state of a table has its place in each group that names the table.

-- Orders

create function private.is_open_order(status text) returns boolean
language sql immutable
return status in ('pending', 'processing', 'shipped', 'out_for_delivery');
comment on function private.is_open_order is 'Neither delivered nor cancelled. Of a status of orders.';

create function private.is_in_shop(status text) returns boolean
language sql immutable
return status in ('pending', 'processing');
comment on function private.is_in_shop is 'The goods of an order with this status are in the shop.';

create function private.is_on_the_way(status text) returns boolean
language sql immutable
return status in ('shipped', 'out_for_delivery');
comment on function private.is_on_the_way is
  'The goods have left the shop and have not arrived. Of a status of orders; `shipped` is shown as `out_for_delivery`.';

create function private.has_left_shop(status text) returns boolean
language sql immutable
return status in ('shipped', 'out_for_delivery', 'delivered');
comment on function private.has_left_shop is 'The goods of an order with this status have left the shop.';

create function private.is_before_work(status text) returns boolean
language sql immutable
return status in ('pending', 'cancelled');
comment on function private.is_before_work is 'Nobody has begun to prepare an order with this status.';

create function private.can_be_paid(payment_status text) returns boolean
language sql immutable
return payment_status in ('unpaid', 'needs_review');
comment on function private.can_be_paid is 'Money that arrives can still pay an order with this payment status.';

create function private.was_paid(payment_status text) returns boolean
language sql immutable
return payment_status in ('paid', 'refunded');
comment on function private.was_paid is 'The charge of an order has arrived, whether or not it was sent back since.';

create function private.has_money(payment_status text) returns boolean
language sql immutable
return payment_status in ('paid', 'needs_review');
comment on function private.has_money is
  'The shop has money of an order: its charge, or an amount that staff decide about.';

-- Deliveries

create function private.is_open_delivery(delivery_status text) returns boolean
language sql immutable
return delivery_status in ('pending', 'assigned', 'picked_up', 'in_transit');
comment on function private.is_open_delivery is 'Neither delivered nor failed.';

create function private.is_before_pickup(delivery_status text) returns boolean
language sql immutable
return delivery_status in ('pending', 'assigned');
comment on function private.is_before_pickup is 'The rider of a delivery has not picked it up.';

create function private.is_with_rider(delivery_status text) returns boolean
language sql immutable
return delivery_status in ('picked_up', 'in_transit');
comment on function private.is_with_rider is 'The rider of a delivery has the goods.';

create function private.was_picked_up(delivery_status text) returns boolean
language sql immutable
return delivery_status in ('picked_up', 'in_transit', 'delivered');
comment on function private.was_picked_up is 'The goods of a delivery went with its rider, and have not come back.';

create function private.has_ended(delivery_status text) returns boolean
language sql immutable
return delivery_status in ('delivered', 'failed');
comment on function private.has_ended is 'Delivered or failed.';

create function private.is_open_job(delivery_status text) returns boolean
language sql immutable
return delivery_status in ('assigned', 'picked_up', 'in_transit');
comment on function private.is_open_job is 'An open delivery that a rider was assigned to.';

-- Payments

create function private.is_open_attempt(status text) returns boolean
language sql immutable
return status in ('initiating', 'processing');
comment on function private.is_open_attempt is
  'The prompt of a payment is being sent, or waits for the PIN or its result.';

create function private.is_unsettled_attempt(status text) returns boolean
language sql immutable
return status in ('initiating', 'processing', 'review');
comment on function private.is_unsettled_attempt is
  'Neither its result nor, with an amount in doubt, the decision about it is known.';

create function private.may_still_succeed(status text) returns boolean
language sql immutable
return status in ('initiating', 'processing', 'unresolved');
comment on function private.may_still_succeed is 'A prompt without a result, also one that nobody asks about any more.';

create function private.ended_unpaid(status text) returns boolean
language sql immutable
return status in ('failed', 'review');
comment on function private.ended_unpaid is
  'A payment that ended without paying its order: it failed, or its amount is in doubt.';

create function private.has_result(status text) returns boolean
language sql immutable
return status in ('completed', 'failed');
comment on function private.has_result is 'Of payments and refunds: M-PESA has said how it ended.';

create function private.can_be_queried(status text) returns boolean
language sql immutable
return status in ('processing', 'review');
comment on function private.can_be_queried is
  'The result of a prompt can be asked for: none has come, or its amount is in doubt.';

-- Refunds: requested → approved → sending → sent or unknown → completed or failed; withdrawn by staff before it is sent.

create function private.is_unsent_refund(status text) returns boolean
language sql immutable
return status in ('requested', 'approved');
comment on function private.is_unsent_refund is
  'A refund that waits for its approval, or to be sent. Before its first try it can be withdrawn.';

create function private.is_refund_at_mpesa(status text) returns boolean
language sql immutable
return status in ('sent', 'unknown');
comment on function private.is_refund_at_mpesa is 'A refund that M-PESA has, or may have, without a result.';

create function private.is_refund_on_the_way(status text) returns boolean
language sql immutable
return status in ('sending', 'sent', 'unknown');
comment on function private.is_refund_on_the_way is 'A refund whose money may have left, without a result.';

create function private.is_open_refund(status text) returns boolean
language sql immutable
return status in ('requested', 'approved', 'sending', 'sent', 'unknown');
comment on function private.is_open_refund is 'A refund without an end: not completed, failed or withdrawn.';

create function private.is_dropped_refund(status text) returns boolean
language sql immutable
return status in ('failed', 'withdrawn');
comment on function private.is_dropped_refund is
  'A refund that sent no money and will not: its money can be sent back by another.';

-- Messages

create function private.may_have_arrived(status text) returns boolean
language sql immutable
return status in ('sending', 'sent', 'unsure');
comment on function private.may_have_arrived is 'A message that was handed over, or may have been.';

create function private.is_leaving_message(status text) returns boolean
language sql immutable
return status in ('waiting', 'sending');
comment on function private.is_leaving_message is 'A message that will be handed over, or is just being.';
