-- The few orders whose money waits for a person, found among however many.

create index orders_to_decide on public.orders (created_at desc)
  where payment_status = 'needs_decision' or (payment_status = 'paid' and status = 'cancelled');
