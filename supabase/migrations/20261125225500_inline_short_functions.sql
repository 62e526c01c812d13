-- Functions whose body was read when they were created become part of their caller's plan.
alter function private.is_whole_shillings(bigint) reset search_path;
alter function private.nairobi_day(timestamptz) reset search_path;
alter function private.shown_status(text) reset search_path;
alter function private.order_status_of_delivery(text) reset search_path;
alter function private.delivery_status_for_order(text, text, text) reset search_path;
alter function private.undo_window() reset search_path;
alter function private.delivery_promise() reset search_path;
alter function private.short_search_rows() reset search_path;
alter function private.is_status_message(text) reset search_path;
alter function private.describe_payment(public.payments) reset search_path;
alter function private.describe_message(public.outbox_messages) reset search_path;
alter function private.figures_of(public.orders) reset search_path;
alter function private.figures_of(public.payments) reset search_path;
alter function private.figures_of(public.refunds) reset search_path;
-- Visitors have no address.
alter function private.email_of(uuid) strict;
