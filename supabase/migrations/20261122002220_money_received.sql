-- The dashboard shows the money that arrived: in all, this week and today, less what was sent back.

drop function public.dashboard_figures();
create function public.dashboard_figures() returns table (
  products bigint,
  orders bigint,
  inquiries bigint,
  revenue bigint,
  received bigint,
  received_this_week bigint,
  received_today bigint
)
language plpgsql stable security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  now_in_nairobi timestamp := now() at time zone 'Africa/Nairobi';
  today timestamptz := date_trunc('day', now_in_nairobi) at time zone 'Africa/Nairobi';
  monday timestamptz := date_trunc('week', now_in_nairobi) at time zone 'Africa/Nairobi';
begin
  perform private.expect_staff();
  return query
  with money (amount, moved_at) as (
    select p.amount, p.completed_at from public.payments as p where p.status = 'completed'
    union all
    select -r.amount, r.completed_at from public.refunds as r where r.status = 'completed' and r.payment_id is not null
  )
  select
    (select count(*) from public.products as p where p.is_active),
    o.count,
    (select count(*) from public.inquiries),
    o.revenue,
    m.in_all,
    m.this_week,
    m.today
  from (
    select count(*), coalesce(sum(total_amount), 0)::bigint as revenue from public.orders
  ) as o
  cross join (
    select
      coalesce(sum(amount), 0)::bigint as in_all,
      coalesce(sum(amount) filter (where moved_at >= monday), 0)::bigint as this_week,
      coalesce(sum(amount) filter (where moved_at >= today), 0)::bigint as today
    from money
  ) as m;
end
$$;
comment on function public.dashboard_figures() is
  'Active products, orders, inquiries, and money in cents: revenue is the total of all orders, paid or not (specification §7); received is what arrived for orders less what was sent back, by the time it moved; days are those of Nairobi, weeks begin on Monday. For staff.';
grant execute on function public.dashboard_figures() to authenticated;
