-- PostgreSQL prices a scan that is switched off at 1e10, where no index replaces it, and then compiles the statement. Taking
-- the next message from the outbox took 260 ms for that reason.
alter function private.hits_so_far set jit = off;
alter function private.is_within_limit set jit = off;
alter function public.home_products set jit = off;
alter function private.draw_tracking_number set jit = off;
alter function public.place_order set jit = off;
alter function private.return_units set jit = off;
alter function public.expire_reservations set jit = off;
alter function private.take_units set jit = off;
alter function private.end_reviews set jit = off;
alter function private.count_held_units set jit = off;
alter function private.refuse_too_many_unpaid_orders set jit = off;
alter function private.is_within_unit_allowance set jit = off;
alter function private.may_hold_units set jit = off;
alter function private.reserve_for_prompt set jit = off;
alter function private.reduce_abandoned_orders set jit = off;
alter function public.orders_by_access_key set jit = off;
alter function private.may_prompt_phone set jit = off;
alter function public.lease_messages set jit = off;
alter function private.count_change set jit = off;
