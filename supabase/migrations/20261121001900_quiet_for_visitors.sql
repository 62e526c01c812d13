-- Visitors hear nothing of orders, not even that there was one. The live service tells a role that may not read a
-- table's key "something happened" without a word of what; to one that may read it, it tells the rows that policies
-- show, and of these tables they show visitors none.

grant select (id) on public.orders, public.payments, public.deliveries, public.inquiries to anon;
