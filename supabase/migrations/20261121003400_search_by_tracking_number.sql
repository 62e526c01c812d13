-- Customers tell their tracking number, and M-PESA's statement the reference made of it: typed as a whole, either finds its
-- order and that order's delivery.

create function private.order_or_text_pattern(search text) returns text
language sql stable
set search_path = ''
as $$
  select coalesce(
    (
      -- The number is the last of what orders and their deliveries are searched in: with nothing after it, it is the whole one.
      select rtrim(private.order_search_pattern(o.order_number), '%')
      from public.orders as o where o.id = private.order_of_reference(search)
    ),
    private.order_search_pattern(search)
  );
$$;
comment on function private.order_or_text_pattern(text) is
  'For LIKE: the number of the order whose tracking number was typed; else contains what was typed, in lower case. Null when nothing was.';

-- The searches stay as they are but for the pattern they look for. Messages have the tracking number in their text.
do $$
declare
  procedure regprocedure;
begin
  foreach procedure in array array[
    'public.search_orders(text, text, timestamptz, uuid, integer)',
    'public.count_orders(text, text)',
    'public.search_deliveries(text, text, timestamptz, uuid, integer)'
  ]::regprocedure[] loop
    execute replace(
      pg_get_functiondef(procedure), 'private.order_search_pattern(', 'private.order_or_text_pattern('
    );
  end loop;
end
$$;
comment on function public.search_orders(text, text, timestamptz, uuid, integer) is
  'For staff: a page of the orders whose name, e-mail or number contains a text, in any case and literally, or whose tracking number it is; newest first, after the order named by before_created_at and before_id.';
comment on function public.search_deliveries(text, text, timestamptz, uuid, integer) is
  'For staff: a page of the deliveries whose person, or whose order''s customer or number, contains a text, in any case and literally, or whose order''s tracking number it is; newest first, after the delivery named by before_created_at and before_id.';
