-- Earlier versions keep working: they show the text as it is.

-- The privacy notice names what the device keeps, where the owner has not written another one. The audit is of changes by staff.
alter table public.shop_texts disable trigger shop_texts_after_change;
update public.shop_texts as t
set body = case when t.body = t.default_body then n.body else t.body end, default_body = n.body
from (
  select replace(
    old.default_body,
    'for the next order, they stay on the device.',
    'for the next order, they stay on the device. It also keeps the numbers and keys of your orders there: with them, this website shows you those orders and fills in their details for the next one. “Forget my details” in the order form and “Forget my orders on this device” beside your orders erase both.'
  ) as body
  from public.shop_texts as old where old.slug = 'privacy'
) as n
where t.slug = 'privacy';
alter table public.shop_texts enable trigger shop_texts_after_change;
select pg_catalog.pg_notify('page_changes', '{"table": "shop_texts"}');
